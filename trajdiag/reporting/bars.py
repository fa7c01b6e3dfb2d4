"""Bars: where each readout's examples end up, and how deep it runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from trajdiag.reporting.canvas import loop_axis, percent_ticks
from trajdiag.reporting.names import shortened
from trajdiag.reporting.numerals import loops, percent
from trajdiag.reporting.palette import PARTS, Role, light, text_on

ROW = 40
"""Height of one readout's row in the attribution and depth panels, px."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A readout at its operating point."""

    label: str
    role: Role
    shares: dict[str, float]
    """By part; they sum to 1."""
    depth: float
    low: float | None
    high: float | None


def attribution(ax: Axes, bars: Sequence[Bar], start: float) -> None:
    """One bar a readout over all test examples, on an axis from `start` to 1."""
    ax.set(xlim=(start, 1), ylim=(ROW * len(bars), 0), yticks=[])
    ax.spines.left.set_visible(False)
    beside = ax.get_yaxis_transform()
    for row, bar in enumerate(bars):
        y = ROW * row
        _named(ax, bar, y)
        ax.text(
            1,
            y + 14,
            f"{percent(bar.shares['ok'])}% right",
            transform=beside,
            ha="right",
            color=light("muted"),
        )
        left = 0.0
        for part in PARTS:
            share = bar.shares[part]
            seen = (max(left, start), left + share)
            left += share
            if seen[1] <= seen[0]:
                continue
            ax.barh(
                y + 27,
                seen[1] - seen[0],
                left=seen[0],
                height=15,
                color=light(part),
                linewidth=0,
                clip_on=False,
            )
            if part != "ok" and seen[1] - seen[0] > 0.09 * (1 - start):
                ax.text(
                    (seen[0] + seen[1]) / 2,
                    y + 31,
                    percent(share),
                    ha="center",
                    fontsize=10,
                    color=light(text_on(PARTS[part])),
                )
        if start > 0:
            ax.text(start, y + 31.5, " //", color=light("muted"), fontsize=11)
    percent_ticks(ax.xaxis, start, 1.0, 4)
    ax.tick_params(axis="x", length=3)


def depths(ax: Axes, bars: Sequence[Bar], last: int, oracle: float | None) -> None:
    """The same readouts' mean exit depths with their intervals, on an axis of loops."""
    ax.set(ylim=(ROW * len(bars), 0), yticks=[])
    ax.spines.left.set_visible(False)
    loop_axis(ax, last, 0.03 * (last - 1))
    for row, bar in enumerate(bars):
        y = ROW * row + 27
        _named(ax, bar, ROW * row)
        ax.plot([1, last], [y, y], color=light("faint"), linewidth=1, zorder=0)
        if oracle is not None:
            ax.plot([oracle, oracle], [y - 7, y + 7], color=light("oracle"), linewidth=1.6)
        if bar.low is not None and bar.high is not None:
            ax.plot(
                [bar.low, bar.high],
                [y, y],
                color=bar.role.light,
                linewidth=2.5,
                solid_capstyle="butt",
            )
        ax.plot([bar.depth], [y], "o", color=bar.role.light, markersize=7, clip_on=False)
        ax.text(
            1,
            ROW * row + 14,
            f"{loops(bar.depth)} loops",
            transform=ax.get_yaxis_transform(),
            ha="right",
            color=light("muted"),
        )


def _named(ax: Axes, bar: Bar, y: float) -> None:
    beside = ax.get_yaxis_transform()
    ax.plot(
        [0.012], [y + 10], "s", color=bar.role.light, transform=beside, markersize=8, clip_on=False
    )
    ax.text(0.042, y + 14, shortened(bar.label, 27), transform=beside, fontweight="bold")
