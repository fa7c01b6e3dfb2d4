"""Conditions of --fail-if: what can be said, what of it is true, and what is answered."""

import dataclasses

import pytest

from tests.reporting.planted import planted_results
from trajdiag.diagnosis.checks import (
    Check,
    failures,
    parse_check,
    quantities,
    require_known,
)
from trajdiag.errors import UsageError
from trajdiag.results import DiagnosisRow

STORES = ["mano-fixed-uniform", "mano-joint-linear"]
FIXED, JOINT = STORES


@pytest.fixture(scope="module")
def results():
    return planted_results(STORES, examples=200)


def failed(results, text: str) -> list[str]:
    return failures(results, [parse_check(text)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("readout > 0.05", Check(quantity="readout", sign=">", limit=0.05)),
        ("depth@95>=2", Check(quantity="depth@95", sign=">=", limit=2.0)),
        (" accuracy < .9 ", Check(quantity="accuracy", sign="<", limit=0.9)),
        ("misfit <= -1e-3", Check(quantity="misfit", sign="<=", limit=-0.001)),
        (
            "accuracy@loop=2 > 0.5",
            Check(quantity="accuracy@loop=2", sign=">", limit=0.5),
        ),
        ("native gate:depth > 1", Check(readout="native", quantity="depth", sign=">", limit=1.0)),
        ("k=3:depth<2", Check(readout="k=3", quantity="depth", sign="<", limit=2.0)),
        ('"my gate": depth > 2', Check(readout="my gate", quantity="depth", sign=">", limit=2.0)),
        ("'my gate':depth > 2", Check(readout="my gate", quantity="depth", sign=">", limit=2.0)),
        (
            "linear-ponder: share/late > 1.",
            Check(readout="linear-ponder", quantity="share/late", sign=">", limit=1.0),
        ),
    ],
)
def test_a_check_is_a_quantity_a_sign_and_a_number(text, expected):
    assert parse_check(text) == expected
    assert parse_check(str(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "readout",
        "readout >",
        "> 0.05",
        "readout = 0.05",
        "readout > 5%",
        "readout > nan",
        "a b > 1",
        "my gate:depth > 1",
        "'my gate:depth > 1",
        "readout > 1e999",
        "readout > -1e999",
        "readout > ٣",
        "readout > 0.05 or early > 1",
        "__import__('os') > 1 > 0",
    ],
)
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match=r"such as 'readout > 0\.05'"):
        parse_check(text)


def test_a_failure_names_quantity_readout_store_value_and_interval(results):
    row = next(
        r
        for r in results.diagnosis
        if (r.store, r.readout, r.at, r.part) == (JOINT, "native", "integrated", "misfit")
    )
    found = failed(results, "native:misfit > 0.001")
    assert found == [
        f"misfit of native on {JOINT} is {row.value:.4g} [{row.low:.4g}, {row.high:.4g}] "
        "(native:misfit > 0.001)"
    ]
    assert failed(results, "native:misfit > 0.9") == []


def test_without_a_name_it_is_about_the_readout_under_diagnosis_of_every_store(results):
    found = failed(results, "depth > 0")
    assert [text.split(" is ")[0] for text in found] == [
        f"depth of {results.ranked(FIXED)[5]} on {FIXED}",
        f"depth of native on {JOINT}",
    ]


def test_the_signs_are_those_of_arithmetic(results):
    value = next(
        r.value for r in results.scores if (r.store, r.metric) == (FIXED, "final_accuracy")
    )
    only = dataclasses.replace(results, stores=results.stores[:1])
    true = {
        sign: bool(failed(only, f"fixed:final_accuracy {sign} {value!r}"))
        for sign in ("<", "<=", ">", ">=")
    }
    assert true == {"<": False, "<=": True, ">": False, ">=": True}


def test_a_number_that_is_not_reached_fails_whatever_the_limit(results):
    rows = [
        dataclasses.replace(r, value=None) if r.metric == "depth@99" else r for r in results.scores
    ]
    lacking = dataclasses.replace(results, scores=rows)
    found = failed(lacking, "entropy:depth@99 > 1000")
    assert len(found) == 2
    assert all("is not reached or not defined" in text for text in found)


def test_a_store_without_a_reference_is_passed_over_where_another_has_one(results):
    found = failed(results, "trajectory_regret > -1")
    assert len(found) == 1
    assert JOINT in found[0]


def test_unknown_names_are_told_with_the_nearest_and_where_all_are_listed(results):
    with pytest.raises(UsageError, match=r"unknown quantity 'reedout', did you mean readout.*csv"):
        failed(results, "reedout > 0.05")
    with pytest.raises(UsageError, match="unknown readout 'entropie', did you mean entropy"):
        failed(results, "entropie:depth > 1")
    with pytest.raises(UsageError, match="misfit is no number of fixed, but of ") as caught:
        failed(results, "fixed:misfit > 1")
    assert len(str(caught.value)) < 200


def test_names_are_known_before_there_are_results(results):
    known = quantities(4, (0.95, 0.98, 0.99), (1.0, 0.5))
    metrics = {row.metric for row in results.scores if row.split == "test"}
    parts = {row.part for row in results.diagnosis}
    assert metrics | parts <= set(known)
    names = {row.readout for row in results.readouts}
    require_known([parse_check("entropy:depth@98 > 1")], names, known)
    require_known([parse_check("n_differ@0.5 > 1")], names, known)
    with pytest.raises(UsageError, match="unknown quantity 'n_differ@foo'"):
        require_known([parse_check("n_differ@foo > 1")], names, known)
    with pytest.raises(UsageError, match="unknown quantity 'n_differ@1'"):
        require_known([parse_check("n_differ@1 > 1")], names, quantities(4, (0.95,), ()))
    with pytest.raises(UsageError, match="unknown quantity 'depth@97', did you mean depth@9") as e:
        require_known([parse_check("entropy:depth@97 > 1")], names, known)
    assert len(str(e.value)) < 300
    with pytest.raises(UsageError, match=r"unknown readout 'my gate'; existing: .*entropy, "):
        require_known([parse_check("'my gate':depth > 1")], names, known)


def test_a_store_that_is_diagnosed_alone_is_told_that_its_trajectory_needs_a_reference():
    alone = planted_results([FIXED], examples=60)
    with pytest.raises(UsageError, match="needs another store of the task as --reference"):
        failed(alone, "trajectory_regret > 0.1")


def test_a_threshold_of_the_users_own_is_what_shares_and_depth_are_about():
    results = planted_results([FIXED], examples=60)
    for part, at, value in (("late", "threshold", 0.5), ("late", "point", 0.1)):
        results.diagnosis.insert(
            0,
            DiagnosisRow(
                store=FIXED,
                reference=None,
                readout="mine",
                at=at,
                depth=2.0,
                part=part,
                value=value,
                low=None,
                high=None,
            ),
        )
    results.diagnosis[:] = [r for r in results.diagnosis if (r.readout, r.at) != ("mine", "point")]
    results.readouts.append(dataclasses.replace(results.readouts[0], readout="mine"))
    assert failed(results, "mine:late > 0.4") == [
        f"late of mine on {FIXED} is 0.5 (mine:late > 0.4)"
    ]
