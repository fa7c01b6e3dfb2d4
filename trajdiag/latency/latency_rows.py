"""What was measured, as tidy rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trajdiag.latency.agreement import Agreement
from trajdiag.latency.chosen import Chosen
from trajdiag.latency.context import MeasuredContext
from trajdiag.latency.cost import Cost, Lost
from trajdiag.latency.measured import Measured, Span, span
from trajdiag.results import LatencyRow

FULL = "full"
"""The context in which everything before an example's decision had run all loops."""


@dataclass(kw_only=True)
class Rows:
    """The rows of one readout on one side, as they are told."""

    chosen: Chosen
    store: str
    context: str
    batch: str
    device: str
    examples: int
    found: list[LatencyRow] = field(default_factory=list)

    def add(self, metric: str, unit: str, value: float | Span | None) -> None:
        """One row more."""
        many = value if isinstance(value, Span) else None
        plain = many.value if many else value
        assert not isinstance(plain, Span)
        threshold = self.chosen.threshold
        self.found.append(
            LatencyRow(
                store=self.store,
                readout=self.chosen.readout.name,
                threshold=threshold if math.isfinite(threshold) else None,
                context=self.context,
                batch=self.batch,
                device=self.device,
                metric=metric,
                value=None if plain is None or not math.isfinite(plain) else plain,
                low=many.low if many else None,
                high=many.high if many else None,
                unit=unit,
                n=self.examples,
            )
        )


def latency_rows(measured: Measured, store: str, device: str) -> list[LatencyRow]:
    """Every number about one readout on one side."""
    rows = Rows(
        chosen=measured.chosen,
        store=store,
        context=FULL,
        batch=measured.batch,
        device=device,
        examples=measured.examples,
    )
    add = rows.add
    live = measured.live
    _add_speed(rows, measured)
    for name, of in _LOST.items():
        add(name, "share of full", _around(of(measured.lost), [of(x) for x in measured.losses]))
    for name, of in _COST.items():
        value = _around(of(measured.cost), [of(cost) for cost in measured.costs])
        add(name, "ms", _scaled(value, 1e3))
    add("cost/r2", "share", measured.cost.r2)
    add("cost/rms", "ms", 1e3 * measured.cost.rms)
    add("readings", "readings", measured.readings)
    _add_flops(rows, measured, measured.examples)
    add("row-loops", "loops", live.row_loops)
    add("compactions", "times", live.compactions)
    add("refills", "times", live.refills)
    add("depth", "loops", measured.depth)
    add("depth/tokens", "loops", measured.token_depth)
    add("depth/offline", "loops", float(measured.offline.depth.mean()))
    _add_accuracy(rows, live.prediction, measured)
    _add_differing(rows, measured.agreement)
    return rows.found


def context_rows(measured: MeasuredContext, store: str, device: str) -> list[LatencyRow]:
    """Every number about one readout, decoded under one context on one side."""
    rows = Rows(
        chosen=measured.chosen,
        store=store,
        context=measured.context,
        batch=measured.batch,
        device=device,
        examples=len(measured.decoded.exit_depth),
    )
    add = rows.add
    decoded = measured.decoded
    _add_speed(rows, measured)
    _add_flops(rows, measured, decoded.tokens)
    add("tokens", "tokens", decoded.tokens)
    add("loops-run", "loops", decoded.loops_run)
    add("depth", "loops", float(decoded.exit_depth.mean()))
    add("depth/tokens", "loops", decoded.depth)
    add("depth/offline", "loops", float(measured.offline.depth.mean()))
    _add_accuracy(rows, decoded.prediction, measured)
    add("agreement", "share", measured.agreement)
    _add_differing(rows, measured.unlike_offline)
    return rows.found


def _add_speed(rows: Rows, measured: Measured | MeasuredContext) -> None:
    speedup, ideal = measured.speedup, measured.ideal
    rows.add("full", "ms", _scaled(span(measured.full_seconds), 1e3))
    rows.add("live", "ms", _scaled(span(measured.live_seconds), 1e3))
    rows.add("speedup", "ratio", speedup)
    rows.add("speedup/ideal", "ratio", ideal)
    rows.add("speedup/share-of-ideal", "share", _scaled(speedup, 1 / ideal))


def _add_flops(rows: Rows, measured: Measured | MeasuredContext, by: int) -> None:
    """Of one of so many examples or tokens."""
    full, took = measured.full_flops, measured.live_flops
    rows.add("flops/full", "FLOPs", full.whole / by)
    rows.add("flops/live", "FLOPs", took.whole / by)
    # what is neither a loop nor the head that full depth needs too
    rows.add("flops/readout", "FLOPs", (took.whole - took.loops - (full.whole - full.loops)) / by)


def _add_accuracy(
    rows: Rows, prediction: NDArray[np.int64], measured: Measured | MeasuredContext
) -> None:
    offline = measured.offline
    for metric, predicted in (
        ("accuracy", prediction),
        ("accuracy/offline", offline.prediction),
        ("accuracy/full", measured.full_prediction),
    ):
        rows.add(metric, "share", float((predicted == offline.target).mean()))


def _add_differing(rows: Rows, found: Agreement) -> None:
    """Live against offline."""
    rows.add("differing/depth", "examples", found.depth)
    rows.add("differing/prediction", "examples", found.prediction)
    rows.add("differing/distance", rows.chosen.readout.unit, found.distance)


_LOST: dict[str, Callable[[Lost], float]] = {
    "lost": lambda lost: lost.whole,
    "lost/fixed": lambda lost: lost.fixed,
    "lost/readout": lambda lost: lost.reading,
    "lost/rows": lambda lost: lost.rows,
    "lost/rest": lambda lost: lost.rest,
}
_COST: dict[str, Callable[[Cost], float]] = {
    "cost/fixed": lambda cost: cost.fixed,
    "cost/loop": lambda cost: cost.loop,
    "cost/readout": lambda cost: cost.reading,
}


def _around(value: float, repeats: list[float]) -> Span:
    """`value`, which is of the medians, and the quartiles of what each repeat gives."""
    low, high = np.quantile(repeats, [0.25, 0.75])
    return Span(value=value, low=float(low), high=float(high))


def _scaled(of: Span, factor: float) -> Span:
    return Span(value=of.value * factor, low=of.low * factor, high=of.high * factor)
