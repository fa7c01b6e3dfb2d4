"""Regret, paired differences and what nobody can deploy, as a report shows them."""

import dataclasses

import pytest

from tests.reporting.planted import LIMITS, planted_results
from tests.reporting.planted_causes import REGRET, add_regret
from trajdiag.reporting import comparison_tables, regret_tables
from trajdiag.reporting.board import board
from trajdiag.reporting.canvas import blank, style
from trajdiag.reporting.cells import told
from trajdiag.reporting.figures import frontier_figure
from trajdiag.reporting.names import readout_label
from trajdiag.reporting.numerals import percent
from trajdiag.reporting.regret_bars import Amount, Regret, regrets
from trajdiag.reporting.regret_figure import regret_figure
from trajdiag.results import ComparisonRow

STORES = ["mano-fixed-uniform", "mano-joint-linear"]
FIXED, JOINT = STORES


@pytest.fixture(scope="module")
def indexed():
    return board(planted_results(STORES, examples=200))


@pytest.fixture(scope="module")
def alone():
    return board(planted_results([JOINT], examples=100))


def amount(value: float, role: str = "ink") -> Amount:
    return Amount(label=role, role=role, value=value, low=value - 0.01, high=value + 0.01)


def test_parts_above_zero_stack_to_the_right_and_parts_below_it_to_the_left():
    parts = [amount(0.03, "trajectory"), amount(-0.01, "unexposed"), amount(-0.02, "learnable")]
    parts.append(amount(0.05, "misfit"))
    block = Regret(label="s", under="", unit="points", total=amount(0.05), parts=tuple(parts))
    with style():
        ax = blank(300, 200, left=5, right=5, top=5, bottom=20)
        regrets(ax, [block], lambda value: percent(value, 2))
        drawn = [(p.get_x(), p.get_x() + p.get_width()) for p in ax.patches]
    expected = [(0, 0.03), (0, -0.01), (-0.01, -0.03), (0.03, 0.08)]
    assert drawn == [pytest.approx(ends) for ends in expected]


def test_a_store_with_a_gate_of_its_own_is_led_by_it_and_another_by_its_best_readout(indexed):
    assert indexed.diagnosed(JOINT, "integrated") == "native"
    assert indexed.diagnosed(FIXED, "integrated") == indexed.principals(FIXED)[-2]
    assert indexed.kind(indexed.diagnosed(FIXED, "accuracy")) == "signal"


def test_the_figure_tells_every_part_with_its_interval_in_points_and_in_loops(indexed):
    figure = regret_figure(indexed)
    assert [panel.title for panel in figure.panels] == [
        "accuracy lost, mean over depth budgets, points",
        "loops lost at matched accuracy, loops",
    ]
    for panel, at in zip(figure.panels, ("integrated", "accuracy"), strict=True):
        rows = indexed.regrets[JOINT, at, "native"]
        for part in REGRET:
            shown = percent(rows[part].value, 2) if at == "integrated" else None
            shown = shown or f"{rows[part].value:.2f}".replace("-", "−")
            assert f"{part.removesuffix('_regret')} {shown} [" in panel.alt


def test_without_a_reference_nothing_is_said_of_another_trainings_states(alone):
    figure = regret_figure(alone)
    assert [key.role for key in figure.keys] == ["unexposed", "learnable", "misfit"]
    assert "trajectory" not in figure.panels[0].alt
    heads = [table.head for table in regret_tables.regret(alone)]
    assert all("Trajectory" not in head and "Lucky" in head for head in heads)


def test_the_tables_state_the_three_ways_of_splitting_and_the_depth_of_the_budget(indexed):
    tables = regret_tables.regret(indexed)
    assert [table.name for table in tables] == [
        "regret-integrated",
        "regret-accuracy",
        "regret-matched",
    ]
    assert tables[2].head[1] == "At a mean depth of"
    assert tables[2].rows[1][1].text == "2.30"
    joint = dict(zip(tables[0].head, tables[0].rows[1], strict=True))
    rows = indexed.regrets[JOINT, "integrated", "native"]
    assert joint["Misfit"].text == percent(rows["misfit"].value, 2)
    named = [joint[part.removesuffix("_regret").capitalize()].text for part in REGRET]
    parts = [float(text.replace("−", "-")) for text in named]
    assert sum(parts) == pytest.approx(float(joint["Regret"].text), abs=0.021)


def test_a_split_that_lacks_a_part_is_not_shown():
    results = planted_results([JOINT], examples=60)
    kept = [row for row in results.diagnosis if row.part != "misfit"]
    assert not board(dataclasses.replace(results, diagnosis=kept)).regrets
    assert len(regret_tables.regret(board(results))) == 3


def test_a_readout_that_never_has_the_matched_accuracy_is_said_not_to_reach_it():
    results = planted_results(STORES, examples=60)
    results.diagnosis[:] = [r for r in results.diagnosis if (r.store, r.at) != (JOINT, "accuracy")]
    indexed = board(results)
    points, in_loops, _ = regret_tables.regret(indexed)
    texts = [cell.text for cell in in_loops.rows[1]]
    assert texts == [f"{JOINT}: native gate", "not reached", "", "", "", ""]
    assert "not reached" not in {cell.text for row in points.rows for cell in row}
    assert JOINT not in regret_figure(indexed).panels[1].alt


def test_a_store_with_one_diagnosed_readout_needs_no_table_of_all(indexed):
    assert regret_tables.every_regret(indexed, JOINT) is not None
    results = dataclasses.replace(planted_results([JOINT], examples=60), diagnosis=[])
    add_regret(results, JOINT, None, "native", "integrated", 1.0)
    assert regret_tables.every_regret(board(results), JOINT) is None


def test_what_nobody_can_deploy_leads_the_scoreboard_and_is_no_rule_to_choose(indexed):
    assert tuple(indexed.ranked(JOINT)[: len(LIMITS)]) == LIMITS
    assert not {*LIMITS} & {*indexed.featured(JOINT), *indexed.principals(JOINT)}
    assert {indexed.roles[name].name for name in LIMITS} < indexed.apart
    assert indexed.apart - {indexed.roles[name].name for name in LIMITS} == {"fixed"}


def test_of_the_limits_the_frontier_draws_the_hindsight_oracle_and_the_learned_bound(indexed):
    alt = frontier_figure(indexed).panels[0].alt
    drawn = [name for name in LIMITS if f"{readout_label(name)} " in alt]
    assert drawn == ["oracle", "bound"]


@pytest.mark.parametrize(("above", "said"), [(-0.01, False), (0.002, False), (0.02, True)])
def test_the_caption_says_why_a_readout_can_lie_above_the_bound_only_where_one_does(above, said):
    results = planted_results([JOINT], examples=60)
    bound = next(row for row in results.frontier if row.readout == "bound")
    rows = [
        dataclasses.replace(bound, readout=name, depth=depth, accuracy=0.9 + higher)
        for name, higher in (("bound", 0.0), ("entropy", above))
        for depth in (1.0, 3.0)
    ]
    caption = frontier_figure(board(dataclasses.replace(results, frontier=rows))).caption
    assert ("a readout can lie above it" in caption) is said


def difference(value, low, high, p=None, p_adjusted=None) -> ComparisonRow:
    return ComparisonRow(
        store="a",
        readout="entropy",
        reference="b",
        reference_readout="entropy",
        metric="area",
        value=value,
        low=low,
        high=high,
        paired=True,
        p=p,
        p_adjusted=p_adjusted,
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (difference(0.02, 0.01, 0.03, 0.001, 0.003), ""),
        (difference(-0.02, -0.03, -0.01), ""),
        (difference(0.02, -0.01, 0.05, 0.2, 0.4), "cannot tell"),
        (difference(0.02, 0.0, 0.05), "cannot tell"),
        (difference(0.02, 0.001, 0.05, 0.03, 0.09), "cannot tell after Holm"),
        (difference(0.02, 0.001, None), ""),
        (difference(0.0, 0.0, 0.0, 1.0, 1.0), "the same"),
        (difference(0.02, None, None), ""),
    ],
)
def test_a_difference_that_the_data_cannot_tell_is_called_so(row, expected):
    assert told(row, 0.05) == expected


def test_a_difference_states_by_how_much_its_interval_and_both_p_values():
    results = planted_results(STORES, examples=60)
    table = comparison_tables.comparisons(board(results))[0]
    row = next(row for row in table.rows if row[0].text == "native gate − entropy")
    cells = dict(zip(table.head, row, strict=True))
    assert cells["Area, points"].text == "−2.10"
    assert cells["Area, points"].interval == "[−2.50, −1.70]"
    assert cells["Area, points"].notes == ("p < 0.001 (Holm 0.001)",)
    assert cells["Matched loops"].text == "+0.58"
    assert cells["Matched accuracy, points"].notes == ("cannot tell", "p = 0.610 (Holm 1.000)")
    told_last = cells["Accuracy at equal depth, points"].notes
    assert told_last == ("cannot tell after Holm", "p = 0.040 (Holm 0.120)")


def test_swap_and_frozen_fit_have_tables_of_their_own_that_say_how_to_read_them():
    results = planted_results(STORES, examples=60)
    indexed = board(results)
    swap, fresh = comparison_tables.swap(indexed), comparison_tables.frozen_fit(indexed)
    assert swap is not None
    assert fresh is not None
    assert swap.head == (
        "Against",
        "Total, points",
        "Trajectory’s share",
        "Readout’s share",
        "Interaction",
    )
    assert [cell.text for cell in swap.rows[0][1:]] == ["−2.70", "−2.10", "−0.60", "+0.10"]
    assert "refitted on both" in swap.note
    assert [cell.text for cell in fresh.rows[0][1:]] == ["−1.90", "+0.49"]
    others = [head for table in comparison_tables.comparisons(indexed) for head in table.head]
    assert not any("share" in head or "swap" in head for head in others)


def test_unpaired_differences_are_said_to_be_unpaired():
    results = planted_results(STORES, examples=60)
    results.comparisons[:] = [dataclasses.replace(r, paired=False) for r in results.comparisons]
    indexed = board(results)
    swap = comparison_tables.swap(indexed)
    assert swap is not None
    notes = [table.note for table in (swap, *comparison_tables.comparisons(indexed))]
    assert all("not paired" in note for note in notes)
