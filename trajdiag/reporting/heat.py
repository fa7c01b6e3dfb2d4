"""A table of shares by difficulty and loop, as ink density with the numbers in it."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from trajdiag.reporting.canvas import height
from trajdiag.reporting.numerals import percent, tick
from trajdiag.reporting.palette import Role, light, text_on


def heat(
    ax: Axes,
    shares: np.ndarray,
    difficulties: Sequence[float],
    role: Role,
    *,
    outlined: Sequence[int] = (),
    margin: Sequence[str] = (),
) -> None:
    """`shares` [difficulty, loop] as ink density with the numbers in percent; `outlined` is a
    column in each row, and `margin` a text at each row's end."""
    rows, last = shares.shape
    ax.set(xlim=(0.5, last + 0.5), ylim=(rows - 0.5, -0.5))
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set_xticks(range(1, last + 1))
    ax.set_yticks(range(rows), [tick(d) for d in difficulties])
    numbered = height(ax) / rows >= 11
    if not numbered:
        ax.set_yticks([0, rows - 1], [tick(difficulties[0]), tick(difficulties[-1])])
    for (row, column), share in np.ndenumerate(shares):
        if not np.isfinite(share):
            continue
        density = _density(float(share))
        ax.add_patch(
            Rectangle(
                (column + 0.52, row - 0.47),
                0.96,
                0.94,
                color=role.light,
                alpha=density,
                linewidth=0,
            )
        )
        if numbered and share >= 0.005:
            ax.text(
                column + 1,
                row,
                percent(share, 0),
                ha="center",
                va="center_baseline",
                fontsize=10,
                color=light(text_on(role, density)),
            )
    for row, column in enumerate(outlined):
        tone = light(text_on(role, _density(float(shares[row, column]))))
        ax.add_patch(
            Rectangle(
                (column + 0.56, row - 0.41), 0.88, 0.82, fill=False, edgecolor=tone, linewidth=1.2
            )
        )
    for row, text in enumerate(margin if numbered else ()):
        ax.text(last + 0.62, row, text, va="center_baseline", color=light("muted"), fontsize=10)


def _density(share: float) -> float:
    return 0.04 + 0.86 * share
