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
