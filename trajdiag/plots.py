"""Results drawn for notebooks, on matplotlib's axes: `ax` or axes of their own, which are returned
to be changed further. The report's figures say more."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.reporting.names import PART_LABELS
from trajdiag.reporting.palette import PARTS, REGRET, readout_role
from trajdiag.results import DiagnosisRow, FrontierRow, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 5
"""Readouts of a frontier, where none are named."""
_LIMITS = ("oracle", "bound")


def plot_frontier(
    results: Results,
    *,
    store: str | None = None,
    readouts: Sequence[str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Accuracy against mean exit depth (loops) on test, a curve a readout at all its thresholds,
    with forced exits as circles and the oracle dashed.

    `results` are those of `score` or `diagnose`; `store` is the first, `readouts` are the oracle,
    forced exits, the best five by their area and the model's own gate when None. Raises
    UnknownNameError for a store or a readout that has no frontier, ConfigError where there is none
    at all and for what is no Results.
    """
    _require(results, readouts, ax)
    points: dict[str, dict[str, list[FrontierRow]]] = defaultdict(lambda: defaultdict(list))
    for row in results.frontier:
        points[row.store][row.readout].append(row)
    store = _named("store", store, _held(points, "frontier", "score or diagnose"))
    of_store = points[store]
    kinds = {row.readout: row.kind for row in results.readouts if row.store == store}
    if readouts is None:
        ranked = [name for name in results.ranked(store) if name in of_store]
        real = [name for name in ranked if kinds[name] not in (*_LIMITS, "fixed")]
        whole = [name for name in ranked if name == "oracle" or kinds[name] == "fixed"]
        own = [name for name in real[_SHOWN:] if kinds[name] == "native"]
        readouts = [*whole, *real[:_SHOWN], *own]
    for name in readouts:
        _named("readout", name, of_store)
    axes = _axes(ax)
    for name in readouts:
        rows = sorted(of_store[name], key=lambda row: row.depth)
        kind = kinds.get(name)
        axes.plot(
            [row.depth for row in rows],
            [row.accuracy for row in rows],
            color=readout_role(name).light,
            linestyle=(0, (2, 2)) if kind in _LIMITS else "-",
            marker="o" if kind == "fixed" else None,
            markerfacecolor="none",
            label=name,
        )
    axes.set(xlabel="mean exit depth (loops)", ylabel="accuracy", title=store)
    _name(axes)
    return axes


def plot_attribution(
    results: Results, *, store: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Shares of the test examples by what became of them, a bar a readout, best at the top: right
    at the exit, left too early, lost it by staying too late, or never right at any loop.

    `results` are those of `score` or `diagnose`, `store` the first when None. Raises
    UnknownNameError for a store without shares, ConfigError where there are none at all and for
    what is no Results.
    """
    _require(results, None, ax)
    shares: dict[str, dict[str, dict[str, DiagnosisRow]]] = defaultdict(lambda: defaultdict(dict))
    for row in results.diagnosis:
        if row.part in PARTS:
            shares[row.store][row.readout][row.part] = row
    store = _named("store", store, _held(shares, "shares", "diagnose"))
    ranked = [name for name in results.ranked(store) if name in shares[store]]
    axes = _axes(ax)
    left = [0.0] * len(ranked)
    for part, role in PARTS.items():
        values = [shares[store][name][part].value for name in ranked]
        axes.barh(ranked, values, left=left, color=role.light, label=PART_LABELS[part])
        left = [start + value for start, value in zip(left, values, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel="share of test examples", xlim=(0, 1), title=store)
    _name(axes)
    return axes


def plot_regret(
    results: Results,
    *,
    store: str | None = None,
    readouts: Sequence[str] | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """What each readout loses against hindsight, in accuracy averaged over all mean-depth budgets,
    split into trajectory, unexposed, learnable and misfit (docs/statistics.md); parts below zero
    stand on the left.

    `results` are those of `diagnose`; `store` is the first, `readouts` all by their area when None.
    Raises UnknownNameError for a store or a readout whose regret is not split, ConfigError where
    none is and for what is no Results.
    """
    _require(results, readouts, ax)
    parts: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in results.diagnosis:
        if row.at == "integrated" and row.part in _REGRET:
            parts[row.store][row.readout][row.part] = row.value
    store = _named("store", store, _held(parts, "regret", "diagnose"))
    of_store = parts[store]
    if readouts is None:
        readouts = [name for name in results.ranked(store) if name in of_store]
    for name in readouts:
        _named("readout", name, of_store)
    axes = _axes(ax)
    ends = {name: [0.0, 0.0] for name in readouts}
    for part, role in _REGRET.items():
        if not any(part in of_store[name] for name in readouts):
            continue  # without a reference there is no trajectory part
        values = [of_store[name].get(part, 0.0) for name in readouts]
        left = [ends[name][value > 0] for name, value in zip(readouts, values, strict=True)]
        label = part.removesuffix("_regret")
        axes.barh(list(readouts), values, left=left, color=role.light, label=label)
        for name, value in zip(readouts, values, strict=True):
            ends[name][value > 0] += value
    axes.invert_yaxis()
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.set(xlabel="accuracy lost, averaged over mean-depth budgets", title=store)
    _name(axes)
    return axes


_REGRET = {"trajectory_regret": PARTS["trajectory"], **REGRET}
"""The parts of regret, in the order of the bar."""


def _name(axes: "Axes") -> None:
    """A legend under the label of the x axis, where nothing is drawn that it could cover, if the
    figure's layout makes room there, else where it covers least."""
    from matplotlib import rcParams
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure(root=True)
    assert figure is not None
    if figure.get_layout_engine() is None:
        axes.legend(frameon=False, loc="best", fontsize="small")
        return
    lines = 3.6 * rcParams["font.size"] / 72  # ticks, their labels and the axis's, inches
    axes.legend(
        frameon=False,
        ncols=2,
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=axes.transAxes + ScaledTranslation(0, -lines, figure.dpi_scale_trans),
    )


def _require(results: Any, readouts: Any, ax: Any) -> None:
    """Raise ConfigError where an argument is of another type than a plot needs."""
    if not isinstance(results, Results):
        raise ConfigError(
            f"a plot needs the Results of score or diagnose, got {type(results).__name__}"
        )
    if isinstance(readouts, str):
        raise ConfigError(f"readouts must be a list of names, got the text {readouts!r}")
    if ax is not None and not hasattr(ax, "barh"):
        raise ConfigError(f"ax must be matplotlib's Axes, got {type(ax).__name__}")


def _held(found: Mapping[str, Any], what: str, source: str) -> Mapping[str, Any]:
    """`found`, by store. Raises ConfigError where it is empty."""
    if not found:
        raise ConfigError(f"these results hold no {what} to plot; give those of {source}")
    return found


def _named(kind: str, name: str | None, known: Mapping[str, object]) -> str:
    """`name`, or the first of `known` where it is None."""
    if name is None:
        return next(iter(known))
    if name not in known:
        raise UnknownNameError(f"{kind} to plot", name, known)
    return name


def _axes(ax: "Axes | None") -> "Axes":
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]
