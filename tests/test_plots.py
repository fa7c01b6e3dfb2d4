"""Figures for notebooks: what is drawn are the rows' own numbers, on the axes that were given."""

import dataclasses

import matplotlib as mpl
import numpy as np
import pytest

from tests.reporting.planted import planted_results
from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.plots import plot_attribution, plot_frontier, plot_regret
from trajdiag.reporting.palette import READOUTS
from trajdiag.results import Results

mpl.use("agg")
from matplotlib import pyplot

STORES = ("mano-fixed-uniform", "mano-joint-linear")


@pytest.fixture(scope="module")
def results() -> Results:
    return planted_results(STORES, examples=300)


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def test_a_frontier_is_drawn_on_the_axes_that_are_given(results):
    _, ax = pyplot.subplots()
    assert plot_frontier(results, readouts=["entropy"], ax=ax) is ax
    (line,) = ax.lines
    rows = [r for r in results.frontier if (r.store, r.readout) == (STORES[0], "entropy")]
    expected = sorted((row.depth, row.accuracy) for row in rows)
    np.testing.assert_allclose(np.sort(line.get_xdata()), [depth for depth, _ in expected])
    assert set(line.get_ydata()) == {accuracy for _, accuracy in expected}
    assert line.get_color() == READOUTS["entropy"].light


def test_without_axes_and_names_the_best_readouts_of_the_first_store_are_drawn(results):
    ax = plot_frontier(results)
    drawn = [line.get_label() for line in ax.lines]
    rules = {row.readout for row in results.readouts if row.kind in ("signal", "native", "gate")}
    ranked = [name for name in results.ranked(STORES[0]) if name in rules]
    assert [name for name in drawn if name in rules] == ranked[:5]
    assert "oracle" in drawn
    assert ax.get_title() == STORES[0]


def test_the_parts_of_a_bar_sum_to_all_examples(results):
    _, ax = pyplot.subplots()
    assert plot_attribution(results, store=STORES[1], ax=ax) is ax
    bars = {c.get_label(): [bar.get_width() for bar in c] for c in ax.containers}
    total = np.sum(list(bars.values()), axis=0)
    np.testing.assert_allclose(total, 1)
    names = [label.get_text() for label in ax.get_yticklabels()]
    found = {(r.readout, r.part): r.value for r in results.diagnosis if r.store == STORES[1]}
    early = [found[name, "early"] for name in names]
    np.testing.assert_allclose(bars["readout: left too early"], early, atol=1e-12)


def test_the_parts_of_regret_are_stacked_and_sum_to_it(results):
    ax = plot_regret(results, store=STORES[1])
    found = {
        (r.readout, r.part): r.value
        for r in results.diagnosis
        if (r.store, r.at) == (STORES[1], "integrated")
    }
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert "native" in names
    drawn = np.array([[bar.get_width() for bar in bars] for bars in ax.containers])
    np.testing.assert_allclose(drawn.sum(0), [found[name, "regret"] for name in names], atol=1e-9)
    for number, name in enumerate(names):
        bars = [bars[number] for bars in ax.containers]
        edges = sorted(
            (min(b.get_x(), b.get_x() + b.get_width()), abs(b.get_width())) for b in bars
        )
        ends = [left + width for left, width in edges]
        np.testing.assert_allclose(
            [left for left, _ in edges][1:], ends[:-1], atol=1e-9, err_msg=name
        )


@pytest.mark.parametrize("plot", [plot_frontier, plot_attribution, plot_regret])
def test_a_legend_covers_neither_what_is_drawn_nor_the_axis_and_stays_on_the_figure(results, plot):
    ax = plot(results, store=STORES[1])
    figure = ax.figure
    figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    assert legend.y1 <= ax.xaxis.label.get_window_extent().y0
    assert legend.x0 >= 0
    assert legend.y0 >= 0
    assert legend.x1 <= figure.bbox.x1


def test_in_a_layout_of_ones_own_a_legend_stays_within_the_axes(results):
    figure, (left, right) = pyplot.subplots(2)
    plot_frontier(results, store=STORES[1], ax=left)
    figure.canvas.draw()
    legend = left.get_legend().get_window_extent()
    assert legend.y0 >= left.get_window_extent().y0
    assert not right.lines


def test_the_models_own_gate_is_drawn_whatever_its_area(results):
    labels = [line.get_label() for line in plot_frontier(results, store=STORES[1]).lines]
    assert "native" in labels
    signals = [row for row in results.scores if row.metric == "area" and row.store == STORES[1]]
    assert len(labels) < len(signals)


def test_scores_alone_have_no_regret_to_plot(results):
    scores = dataclasses.replace(results, diagnosis=[])
    for plot in (plot_regret, plot_attribution):
        with pytest.raises(ConfigError, match=r"to plot; give those of diagnose$"):
            plot(scores)


def test_without_a_reference_no_trajectory_part_is_named(results):
    rows = [row for row in results.diagnosis if row.part != "trajectory_regret"]
    ax = plot_regret(dataclasses.replace(results, diagnosis=rows), store=STORES[1])
    named = [text.get_text() for text in ax.get_legend().get_texts()]
    assert named == ["unexposed", "learnable", "misfit"]


def test_what_is_not_there_is_said(results):
    with pytest.raises(UnknownNameError, match=r"store to plot 'mano'; existing: mano-fixed"):
        plot_frontier(results, store="mano")
    with pytest.raises(UnknownNameError, match="did you mean entropy"):
        plot_frontier(results, readouts=["entropi"])
    for plot in (plot_frontier, plot_attribution, plot_regret):
        with pytest.raises(ConfigError, match=r"to plot; give those of (score or )?diagnose"):
            plot(Results())


@pytest.mark.parametrize("plot", [plot_frontier, plot_attribution, plot_regret])
def test_what_cannot_be_plotted_is_said_in_a_line(results, plot):
    for other in ({"scores": []}, None, "scores.json", [results]):
        with pytest.raises(ConfigError, match=f"needs the Results .*, got {type(other).__name__}$"):
            plot(other)
    with pytest.raises(ConfigError, match="ax must be matplotlib's Axes, got Figure"):
        plot(results, ax=pyplot.figure())
    if plot is not plot_attribution:
        with pytest.raises(ConfigError, match="readouts must be a list of names, got the text 'e"):
            plot(results, readouts="entropy")
    assert len(pyplot.get_fignums()) == 1
