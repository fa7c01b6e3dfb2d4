"""All that one side by side run says of one readout, and the numbers that follow from it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trajdiag.latency.agreement import Agreement, Offline, compared
from trajdiag.latency.chosen import Chosen
from trajdiag.latency.cost import Cost, Lost, fit_cost, lost_time
from trajdiag.latency.flops import Flops
from trajdiag.latency.runner import LiveRun


@dataclass(frozen=True, kw_only=True)
class Span:
    """A number, and its quartiles over the repeats."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class CostRuns:
    """Runs of a fixed depth, with and without reading: what the cost of each is told from."""

    loops: NDArray[np.int64]
    """[run]."""
    readings: NDArray[np.int64]
    """[run]: of each example."""
    seconds: NDArray[np.float64]
    """[run, repeat], of an example."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """See the module. Seconds are those of an example."""

    chosen: Chosen
    batch: str
    """`batched` or `one`."""
    loops: int
    live: LiveRun
    offline: Offline
    full_prediction: NDArray[np.int64]
    """[example]: at the last loop."""
    readings: float
    """How often the live run needed the readout's value, by example."""
    token_depth: float
    """The loops that a token runs, on average."""
    full_flops: Flops
    live_flops: Flops
    full_seconds: NDArray[np.float64]
    """[repeat]."""
    live_seconds: NDArray[np.float64]
    """[repeat]: each beside the full-depth run of the same round."""
    cost_runs: CostRuns

    @property
    def examples(self) -> int:
        return len(self.live.exit_depth)

    @property
    def depth(self) -> float:
        """Mean live exit depth, loops."""
        return float(self.live.exit_depth.mean())

    @property
    def ideal(self) -> float:
        """The speed-up if time were loops and nothing else."""
        return self.loops / self.depth

    @property
    def speedup(self) -> Span:
        """Full depth's time by the live run's, of runs of one round."""
        return span(self.full_seconds / self.live_seconds)

    @cached_property
    def agreement(self) -> Agreement:
        """Live against offline."""
        return compared(self.live, self.offline, self.chosen.threshold)

    @cached_property
    def cost(self) -> Cost:
        """Of the medians over the repeats, seconds of an example."""
        return self._cost(np.median(self.cost_runs.seconds, axis=1))

    @cached_property
    def costs(self) -> list[Cost]:
        """By repeat."""
        return [self._cost(seconds) for seconds in self.cost_runs.seconds.T]

    @cached_property
    def lost(self) -> Lost:
        """In shares of the median full-depth time; its whole is 1 / speed-up - 1 / ideal."""
        full = float(np.median(self.full_seconds))
        return self._lost(self.cost, full, full / self.speedup.value)

    @cached_property
    def losses(self) -> list[Lost]:
        """By repeat."""
        sides = zip(self.costs, self.full_seconds, self.live_seconds, strict=True)
        return [self._lost(cost, float(full), float(live)) for cost, full, live in sides]

    def _cost(self, seconds: NDArray[np.float64]) -> Cost:
        return fit_cost(self.cost_runs.loops, self.cost_runs.readings, seconds)

    def _lost(self, cost: Cost, full: float, live: float) -> Lost:
        return lost_time(
            cost,
            full,
            live,
            depth=self.depth,
            token_depth=self.token_depth,
            loops=self.loops,
            readings=self.readings,
        )

    def said(self) -> list[str]:
        """Lines for the user: a threshold that decides nothing, and what differs from offline."""
        where = f"{self.chosen.readout.name}, {self.batch}"
        return said_of(self.chosen, where, self.live.exit_depth, self.loops, self.agreement)


def said_of(
    chosen: Chosen, where: str, depth: NDArray[np.int16], loops: int, found: Agreement
) -> list[str]:
    """What there is to say to the user of a live run with exit depths `depth` [example], `where` in
    words."""
    at = f"at threshold {chosen.threshold:.6g}"
    lines = []
    if depth.min() == loops:
        lines.append(f"{where}: no example leaves before loop {loops} {at}")
    elif depth.max() == chosen.readout.first_loop:
        lines.append(f"{where}: every example leaves at loop {depth.max()} {at}")
    if found.depth or found.prediction:
        near = (
            ""
            if found.distance is None
            else f" (their values lie within {found.distance:.2g} of the threshold)"
        )
        lines.append(
            f"{where}: of {len(depth):,} examples {found.depth} leave at another loop than "
            f"offline{near}, {found.prediction} are predicted otherwise"
        )
    return lines


def span(values: NDArray[np.float64]) -> Span:
    """The median and the quartiles of `values` [repeat]."""
    low, value, high = np.quantile(values, [0.25, 0.5, 0.75])
    return Span(value=float(value), low=float(low), high=float(high))
