"""What a run costs, as a line: fixed, by loop, by reading of the readout; and where the time goes
that early exit does not save."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Cost:
    """time = fixed + loop x loops + reading x readings, of one example, in one unit of time."""

    fixed: float
    loop: float
    reading: float
    r2: float
    """The share of the variance of the times that the line explains; NaN where they are equal."""
    rms: float
    """Root mean square of what it misses, in the unit of time."""


def fit_cost(
    loops: NDArray[np.integer], readings: NDArray[np.integer], time: NDArray[np.floating]
) -> Cost:
    """The least-squares line through `time` [run] of runs with so many `loops` [run] and `readings`
    [run] by example. Where nothing was read a reading costs 0."""
    columns = np.column_stack([np.ones_like(time), loops, readings]).astype(np.float64)
    (fixed, loop, reading), *_ = np.linalg.lstsq(columns, time, rcond=None)
    missed = time - columns @ [fixed, loop, reading]
    spread = float(((time - time.mean()) ** 2).sum())
    return Cost(
        fixed=float(fixed),
        loop=float(loop),
        reading=float(reading),
        r2=float("nan") if spread == 0 else 1 - float((missed**2).sum()) / spread,
        rms=float(np.sqrt((missed**2).mean())),
    )


@dataclass(frozen=True, kw_only=True)
class Lost:
    """The time of a live run beyond full depth's times mean depth / T, in shares of full depth's;
    the parts sum to the whole exactly."""

    whole: float
    fixed: float
    """What is paid whatever the depth, and so not saved."""
    reading: float
    """Computing the readout's value."""
    rows: float
    """Tokens that run more loops than examples do: those of long rows that leave late, and of rows
    that run on until their last example has left."""
    rest: float
    """All else: dropping and taking rows, smaller batches."""


def lost_time(
    cost: Cost,
    full: float,
    live: float,
    *,
    depth: float,
    token_depth: float,
    loops: int,
    readings: float,
) -> Lost:
    """What a live run of `live` units of time an example, at mean depth `depth` of `loops` by
    example and `token_depth` by token, and with so many `readings` an example, loses against
    `full` x depth / loops."""
    whole = live / full - depth / loops
    fixed = cost.fixed * (1 - depth / loops) / full
    reading = cost.reading * readings / full
    rows = cost.loop * (token_depth - depth) / full
    rest = whole - fixed - reading - rows
    return Lost(whole=whole, fixed=fixed, reading=reading, rows=rows, rest=rest)
