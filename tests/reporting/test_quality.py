"""Signal quality, reliability and training seeds, as a report shows them."""

import dataclasses
import re
from itertools import pairwise

import pytest

from tests.reporting.planted import planted_results
from trajdiag.reporting import quality_tables, replica_tables, tables
from trajdiag.reporting.board import board
from trajdiag.reporting.canvas import style
from trajdiag.reporting.figures import draw_figures
from trajdiag.reporting.html import render_html
from trajdiag.reporting.markdown import render_markdown
from trajdiag.reporting.numerals import MISSING
from trajdiag.reporting.reliability_figure import reliability_figure

STORES = ["mano-fixed-uniform", "mano-joint-linear"]
JOINT = STORES[1]


@pytest.fixture(scope="module")
def results():
    return planted_results(STORES, examples=100)


def test_a_store_has_auroc_by_loop_means_difficulty_and_overthinking(results):
    found = quality_tables.quality(board(results), JOINT)
    assert [table.title.removeprefix(f"{JOINT}: ") for table in found] == [
        "AUROC, right now, by loop",
        "AUROC, settled, by loop",
        "means over loops",
        "order by difficulty",
        "what further loops do, % of test examples",
    ]
    assert found[0].head == ("Readout", "1", "2", "3", "4", "5", "Mean")
    native = next(row for row in found[0].rows if row[0].text == "native gate")
    assert [cell.text for cell in native[1:3]] == ["0.87", "0.88"]
    overthinking = found[-1].rows[0]
    assert overthinking[0].text == "Right at some loop, wrong at the last"
    assert overthinking[-1].text == "1.2"
    assert {cell.text for cell in overthinking[1:-1]} == {""}


@pytest.mark.parametrize("loops", [9, 32, 64])
def test_of_many_loops_the_first_the_last_and_even_steps_between_are_shown(results, loops):
    row = next(row for row in results.quality if row.metric == "auroc/right")
    many = [dataclasses.replace(row, loop=t) for t in (*range(1, loops + 1), None)]
    table = quality_tables.quality(board(dataclasses.replace(results, quality=many)), row.store)[0]
    shown = [int(head) for head in table.head[1:-1]]
    assert shown[0] == 1
    assert shown[-1] == loops
    assert len(shown) <= 9
    steps = {b - a for a, b in pairwise(shown[:-1])}
    assert len(steps) == 1


def test_of_a_task_without_difficulty_no_heading_caption_or_example_speaks_of_it(results):
    level = results.profile[0].difficulty
    alike = dataclasses.replace(
        results,
        profile=[row for row in results.profile if row.difficulty == level],
        quality=[
            dataclasses.replace(row, value=None, low=None, high=None)
            if "difficulty" in row.metric
            else row
            for row in results.quality
        ],
    )
    indexed = board(alike)
    figures = draw_figures(indexed)
    assert {"accuracy", "signals", "exits"} <= {figure.name for figure in figures}
    text = render_markdown(indexed, figures, "t").partition("## Terms")[0]
    assert "difficult" not in text
    page = render_html(indexed, figures, "t").partition('id="terms"')[0]
    assert "difficult" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert "difficult" in render_html(board(results), [], "t")


def test_a_measure_without_a_value_is_a_dash(results):
    rows = [dataclasses.replace(row, value=None, low=None, high=None) for row in results.quality]
    found = quality_tables.quality(board(dataclasses.replace(results, quality=rows)), JOINT)
    assert {cell.text for table in found for row in table.rows for cell in row[1:]} <= {"–", ""}


def test_reliability_is_drawn_at_the_first_a_middle_and_the_last_loop(results):
    with style():
        figure = reliability_figure(board(results))
    assert [row.title for row in figure.rows] == STORES
    alt = figure.panels[0].alt
    assert [f"loop {t}:" in alt for t in range(1, 6)] == [True, False, True, False, True]
    assert "loop 1: 42.0% come true at 50.0%" in alt


def test_reliability_of_readouts_that_are_always_sure_and_right_can_be_drawn(results):
    sure = [dataclasses.replace(r, confidence=1.0, accuracy=1.0) for r in results.reliability]
    with style():
        figure = reliability_figure(board(dataclasses.replace(results, reliability=sure)))
    assert len(figure.panels) == 4


def test_numbers_over_seeds_say_how_many_seeds_reach_them(results):
    regret, scores = replica_tables.replicas(board(results))
    assert regret.head == ("Readout", "Misfit, points")
    assert regret.rows[0][1].text == "0.71"
    cells = dict(zip(scores.head, scores.rows[0], strict=True))
    assert cells["Loops to 95%, median"].text == "2.21"
    assert cells["Loops to 95%, median"].interval == "[1.90, not reached]"
    assert cells["Loops to 95%, median"].notes == ("2/2 seeds",)
    assert cells["Loops to 95%, mean"].text == "2.40"
    assert cells["Loops to 98%, median"].text == "not reached"
    assert cells["Loops to 98%, median"].interval == "[3.10, not reached]"
    assert cells["Loops to 98%, median"].notes == ("0/2 seeds",)


def test_a_target_that_some_resamples_miss_has_an_interval_without_an_upper_end(results):
    reached = [
        dataclasses.replace(row, value=2.5, low=2.25, high=None)
        if (row.store, row.readout, row.metric) == (JOINT, "entropy", "depth@95")
        else row
        for row in results.scores
    ]
    table = tables.scoreboard(board(dataclasses.replace(results, scores=reached)), JOINT)
    row = next(row for row in table.rows if row[0].text == "entropy")
    cell = dict(zip(table.head, row, strict=True))["Loops to 95%"]
    assert (cell.text, cell.interval) == ("2.50", "[2.25, not reached]")


@pytest.mark.parametrize(("accuracy", "notes"), [(0.941, ("94.1% on test",)), (0.952, ())])
def test_a_target_reached_on_val_and_missed_on_test_has_its_test_accuracy_beside(
    results, accuracy, notes
):
    depth = next(r for r in results.scores if r.metric == "depth@95" and r.readout == "entropy")
    rows = [
        dataclasses.replace(depth, value=2.5),
        dataclasses.replace(depth, metric="accuracy@95", value=accuracy),
    ]
    table = tables.scoreboard(board(dataclasses.replace(results, scores=rows)), depth.store)
    assert table.rows[0][1].notes == notes


def test_other_targets_stand_on_the_scoreboard_too(results):
    depth = next(r for r in results.scores if r.metric == "depth@95" and r.readout == "entropy")
    rows = [dataclasses.replace(depth, metric=f"depth@{t}", value=2.5) for t in ("90", "62.5")]
    made = board(dataclasses.replace(results, scores=rows))
    assert tables.scoreboard(made, depth.store).head[1:] == ("Loops to 90%", "Loops to 62.5%")
    assert tables.other_scores(made, depth.store) == []


def test_what_a_store_lacks_is_a_dash_beside_stores_that_have_it(results):
    table = tables.summary(board(results))
    native = table.head.index("Native gate, loops")
    assert [row[native].text != MISSING for row in table.rows] == [False, True]
    assert all(cell.text for row in table.rows for cell in row)
