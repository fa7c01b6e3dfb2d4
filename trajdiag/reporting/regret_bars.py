"""Bars of regret: one stacked bar a store, parts below zero to the left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from trajdiag.reporting.names import shortened
from trajdiag.reporting.numerals import bracketed
from trajdiag.reporting.palette import light

LINE = 13
"""Height of a part's line, px."""


@dataclass(frozen=True, kw_only=True)
class Amount:
    """A number with its interval; `label` and `role` are the part's."""

    label: str
    role: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Regret:
    """A store's regret and its parts, which sum to it; positive is worse."""

    label: str
    under: str
    """What was compared with what."""
    unit: str
    total: Amount
    parts: tuple[Amount, ...]


def regrets(ax: Axes, blocks: Sequence[Regret], text: Callable[[float], str]) -> None:
    """One block a store: what it loses in all, the parts as one bar from zero, and each part as
    text."""
    ends = [0.0, *(end for block in blocks for end in _ends(block))]
    span = max(ends) - min(ends) or 1.0
    ax.set(
        xlim=(min(ends) - 0.02 * span, max(ends) + 0.02 * span),
        ylim=(height_of(blocks), 0),
        yticks=[],
    )
    ax.spines.left.set_visible(False)
    ax.locator_params(axis="x", nbins=5)
    ax.xaxis.set_major_formatter(lambda value, _: text(value).rstrip("0").rstrip(".") or "0")
    for number, block in enumerate(blocks):
        top = height_of(blocks[:number])
        _heading(ax, block, top, text)
        _bar(ax, block, top + 42)
        _list(ax, block, top + 69, text)
        ax.plot([0, 0], [top + 31, top + 55], color=light("ink"), linewidth=1)


def height_of(blocks: Sequence[Regret]) -> int:
    """Of the drawn blocks, px."""
    return sum(78 + LINE * len(block.parts) for block in blocks)


def _heading(ax: Axes, block: Regret, top: float, text: Callable[[float], str]) -> None:
    beside, total = ax.get_yaxis_transform(), block.total
    ax.text(0, top + 13, shortened(block.label, 24), transform=beside, fontweight="bold")
    ax.text(1, top + 13, f"{text(total.value)} {block.unit}", transform=beside, ha="right")
    ax.text(
        0,
        top + 26,
        shortened(block.under, 44),
        transform=beside,
        fontsize=10,
        color=light("muted"),
    )
    ax.text(
        1,
        top + 26,
        bracketed(total.low, total.high, text),
        transform=beside,
        fontsize=10,
        ha="right",
        color=light("muted"),
    )


def _bar(ax: Axes, block: Regret, y: float) -> None:
    """The parts from zero, each way, and under them the whole with its interval."""
    reach = {True: 0.0, False: 0.0}
    for part in block.parts:
        side = part.value >= 0
        ax.barh(
            y,
            part.value,
            left=reach[side],
            height=15,
            color=light(part.role),
            linewidth=0,
            clip_on=False,
        )
        reach[side] += part.value
    total = block.total
    if total.low is not None and total.high is not None:
        ax.plot([total.low, total.high], [y + 12] * 2, color=light("muted"), linewidth=1.4)
    ax.plot([total.value], [y + 12], "o", color=light("ink"), markersize=4, clip_on=False)


def _list(ax: Axes, block: Regret, y: float, text: Callable[[float], str]) -> None:
    """The parts one below the other, each with its interval."""
    beside = ax.get_yaxis_transform()
    for row, part in enumerate(block.parts):
        line = y + LINE * row
        ax.plot([0.012], [line - 3.5], "s", color=light(part.role), transform=beside, ms=6)
        ax.text(0.04, line, part.label, transform=beside, fontsize=10)
        ax.text(0.4, line, text(part.value), transform=beside, fontsize=10, ha="right")
        ax.text(
            0.43,
            line,
            bracketed(part.low, part.high, text),
            transform=beside,
            fontsize=10,
            color=light("muted"),
        )


def _ends(block: Regret) -> list[float]:
    """How far the block's bar and interval reach, below and above zero."""
    values = [part.value for part in block.parts]
    whole = [block.total.low, block.total.value, block.total.high]
    return [
        sum(v for v in values if v < 0),
        sum(v for v in values if v > 0),
        *(end for end in whole if end is not None),
    ]
