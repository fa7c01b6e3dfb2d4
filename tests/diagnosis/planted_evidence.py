"""A store's evidence whose parts of regret are chosen."""

import dataclasses
import math
from typing import Any

from trajdiag.diagnosis.evidence import Chance, Evidence, Part
from trajdiag.diagnosis.regret import ACCURACY, INTEGRATED, LEARNABLE, MISFIT, TRAJECTORY, UNEXPOSED
from trajdiag.spans import Span


def span(value: float, half: float = 0.02) -> Span:
    return Span(value=value, low=value - half, high=value + half)


def evidence(
    loops: dict[str, Span],
    points: dict[str, Span],
    reference: str | None,
    store: str = "mine",
    **others: Any,
) -> Evidence:
    """A model with a gate of its own, by its parts of regret in loops and in accuracy; `others` are
    fields of its evidence."""
    none = span(0.0, 0.001)
    units = {ACCURACY: loops, INTEGRATED: points}

    def left(parts: dict[str, Span]) -> Span:
        values = [parts.get(name, none) for name in (LEARNABLE, MISFIT)]
        return Span(
            value=sum(v.value for v in values),
            low=sum(v.low or 0.0 for v in values),
            high=sum(v.high or 0.0 for v in values),
        )

    names = [UNEXPOSED, LEARNABLE, MISFIT, *([TRAJECTORY] if reference else [])]
    parts = {n: [Part(at=at, span=of.get(n, none)) for at, of in units.items()] for n in names}
    parts["left"] = [Part(at=at, span=left(of)) for at, of in units.items()]
    whole = {at: span(sum(s.value for s in of.values())) for at, of in units.items()}
    found = Evidence(
        store=store,
        reference=reference,
        paired=True,
        loops=6,
        n=500,
        fewest=500,
        fewest_of="test",
        n_val=500,
        readout="native",
        native=True,
        simple="entropy",
        parts=parts,
        regret=whole,
        shares={"trajectory": none},
        never_at={},
        never_there=0.0,
        lost=none,
        matched=0.9,
        best="entropy",
        fitted=False,
        depth=span(2.0),
        accuracy=span(0.93),
        own=(4.0, 0.9),
        gain=None,
        bound=None,
        final=0.95,
        tied=(),
        chance=Chance(p=0.0, majority=0.5, best=0.9, beaten=True, tellable=True),
        overthinking=none,
        peak=none,
        peak_loop=6,
        modal_share=None,
        modal_depth=None,
        trained=None,
        needed_share=0.5,
        over_fixed=span(0.1),
        to_gain=0.1,
        found_gain=0.1,
        order=None,
        needed_order=math.nan,
        released=None,
        drift_depth=none,
        drift_accuracy=none,
    )
    return dataclasses.replace(found, **others)
