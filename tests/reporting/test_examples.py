"""The sample of examples on the page."""

import dataclasses
from itertools import product

from tests.reporting.planted import planted_results
from tests.reporting.planted_examples import add_examples
from tests.reporting.test_page import HOSTILE, Page, page_of
from trajdiag.reporting.board import board
from trajdiag.reporting.example_views import BESIDE, drill_down
from trajdiag.reporting.folder import report_files

STORES = ["mano-fixed-uniform", "mano-joint-linear"]


def section(results) -> str:
    html = report_files(results, "t")["report.html"]
    return html[html.index('<section id="examples">') :].partition("</section>")[0]


def test_an_example_tells_its_answers_and_values_by_loop_and_where_each_readout_leaves():
    found = drill_down(board(planted_results(STORES, examples=60)), STORES[1])
    assert found.readout == "native gate"
    view = next(v for v in found.examples if v.verdict == "late")
    assert view.title == "+ 3 * 2 1"
    assert view.answers == ("1", "4 ✓", "4 ✓", "1", "1")
    assert view.facts == "difficulty 2; right: 4; leaves at 5 with 1"
    assert [line.label for line in view.lines] == ["native gate", "top1"]
    assert view.lines[0].values == ("–", "2.12", "3.12", "4.12", "5.12 ◂")


def thresholds(results, **of) -> None:
    """The joint store's thresholds at the operating point, by readout."""
    results.scores[:] = [r for r in results.scores if not r.metric.startswith("threshold")]
    for readout, value in of.items():
        row = next(r for r in results.scores if r.readout == readout and r.store == STORES[1])
        row = dataclasses.replace(row, metric="threshold@final", value=value, low=None, high=None)
        results.scores.append(row)


def test_beside_its_values_a_readout_has_the_rule_by_which_it_leaves():
    results = planted_results(STORES, examples=60)
    thresholds(results, native=4.5, fixed=3.0, kl_current_previous=0.25)
    for readout in ("fixed", "kl_current_previous", "entropy"):
        row = next(r for r in results.examples if r.store == STORES[1])
        results.examples.append(dataclasses.replace(row, readout=readout))
    view = drill_down(board(results), STORES[1]).examples[0]
    assert {line.label: line.rule for line in view.lines} == {
        "native gate": "leaves at ≥ 4.5 loops",
        "top1": "",
        "fixed depth": "leaves at loop 3",
        "kl_current_previous": "leaves at ≤ 0.25 nats",
        "entropy": "",
    }
    readouts = [dataclasses.replace(row, first_loop=2) for row in results.readouts]
    later = drill_down(board(dataclasses.replace(results, readouts=readouts)), STORES[1])
    assert later.examples[0].lines[0].rule == "leaves at ≥ 4.5 loops, from loop 2"
    page = page_of(results)
    assert "leaves at ≤ 0.25 nats" in page.text
    assert all(a.get("scope") for a in page.all("th"))


def test_values_have_the_digits_that_tell_them_from_the_threshold():
    results = planted_results(STORES, examples=60)
    thresholds(results, native=2.124)
    view = drill_down(board(results), STORES[1]).examples[1]
    assert view.lines[0].values[1:3] == ("2.125", "3.125")
    assert view.lines[0].rule == "leaves at ≥ 2.124 loops"


def test_classes_are_called_by_their_names_and_those_with_blank_ends_are_quoted():
    results = planted_results(STORES[:1], examples=60)
    results.examples.clear()
    add_examples(results, STORES[0], names=("", " no", "x" * 40, "c", "yes"))
    views = drill_down(board(results), STORES[0]).examples
    late = next(v for v in views if v.verdict == "late")
    assert late.answers == ("“ no”", "yes ✓", "yes ✓", "“ no”", "“ no”")
    assert late.facts == "difficulty 2; right: yes; leaves at 5 with “ no”"


def test_a_class_may_be_called_anything():
    results = planted_results(STORES[:1], examples=60)
    results.examples.clear()
    add_examples(results, STORES[0], names=("", "<b>\u202eab\n", "", "", "x" * 30 + HOSTILE))
    page = page_of(results)
    assert page.open == []
    assert len(page.all("script")) == 1
    assert "<b>\\u202eab\\u000a" in page.text
    assert "\u202e" not in page.text


def test_verdicts_are_filed_apart_and_what_went_wrong_comes_first():
    found = drill_down(board(planted_results(STORES, examples=60)), STORES[0])
    assert [verdict for _, verdict, _ in found.by_verdict] == ["early", "late", "trajectory", "ok"]
    assert sum(len(views) for *_, views in found.by_verdict) == len(found.examples)


def test_a_store_without_inputs_shows_the_examples_ids():
    results = planted_results(STORES[:1], examples=60)
    results.examples[:] = [dataclasses.replace(row, input=None) for row in results.examples]
    titles = [view.title for view in drill_down(board(results), STORES[0]).examples]
    assert titles[:2] == ["example test-0", "example test-1"]


def test_prompts_are_text_whatever_they_hold():
    results = planted_results(STORES, examples=60)
    results.examples.clear()
    add_examples(results, STORES[0], prompt=f"line one {{}}\n{HOSTILE}")
    page = page_of(results)
    assert page.open == []
    assert len(page.all("script")) == 1
    assert "<script>alert('x')</script>" in page.text
    assert "\\u202egnp.exe" in page.text
    assert "\u202e" not in page.text


def test_beside_other_stores_a_stores_examples_take_no_more_than_their_room():
    prompts = ("{}", "a long prompt {} " * 35, "<&>\"'" * 110 + "{}", "模型 {} " * 100)
    classes = (None, ("<&>\"'" * 5,) * 5)
    for prompt, names in product(prompts, classes):
        results = planted_results(STORES, examples=60)
        results.examples.clear()
        add_examples(results, STORES[0], count=40, prompt=prompt, names=names)
        shown = section(results)
        size = len(shown[shown.index('<details class="sample"') :].encode())
        assert BESIDE / 2.5 < size <= BESIDE
        assert Page(shown + "</section>").all("details")


def test_a_store_on_its_own_shows_more():
    for stores in (STORES[:1], STORES):
        results = planted_results(stores, examples=60)
        results.examples.clear()
        add_examples(results, STORES[0], count=40)
        shown = len(drill_down(board(results), STORES[0]).examples)
        assert (shown == 40) == (len(stores) == 1)


def test_a_report_without_examples_says_nothing_of_them():
    results = planted_results(STORES, examples=60)
    results.examples.clear()
    assert not [a for a in page_of(results).all("section") if a.get("id") == "examples"]
