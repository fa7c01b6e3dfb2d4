"""The paper's protocol (arXiv 2607.20519): thresholds on a fixed grid of validation quantiles.

A signal's thresholds are 51 quantiles of its validation values, 0.5% to 99.5%; a gate's are a
data-free grid of its exit probability, 0.01 to 1. The paper picks the operating point on the test
curve; here it is picked on val, as everything is.
"""

import numpy as np
from numpy.typing import NDArray

QUANTILES = np.linspace(0.005, 0.995, 51)
PROBABILITIES = np.arange(1, 101) / 100


def quantile_thresholds(values: NDArray[np.floating], first_loop: int = 1) -> NDArray[np.float64]:
    """The 51 quantiles of all values [example, loop] from `first_loop` on; NaN and infinity left
    out."""
    usable = values[:, first_loop - 1 :]
    usable = usable[np.isfinite(usable)].astype(np.float64)
    return np.quantile(usable, QUANTILES) if usable.size else np.zeros(0)


def hazard_thresholds() -> NDArray[np.float64]:
    """The grid of exit probabilities on the scale of the cumulative hazard, -log(1 - CDF), nats."""
    with np.errstate(divide="ignore"):
        return -np.log1p(-PROBABILITIES)


def logit_thresholds() -> NDArray[np.float64]:
    """The grid of probabilities on the logit scale."""
    with np.errstate(divide="ignore"):
        return np.log(PROBABILITIES) - np.log1p(-PROBABILITIES)
