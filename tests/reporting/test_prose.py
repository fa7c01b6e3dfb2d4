"""Commands in running text are code; all else stays the text that it is."""

import dataclasses

import pytest

from tests.reporting.planted import planted_results
from tests.reporting.test_page import page_of
from trajdiag.reporting.board import board
from trajdiag.reporting.markdown import render_markdown
from trajdiag.reporting.prose import Part, prose, typeset

COMMAND = "trajdiag fit-gate a --kind boosted --utility any-later"
HOSTILE = "trajdiag score '<script>alert(1)</script>*_x_|'"
STRAY = "a` <script>alert(2)</script> `*b*` `"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("plain", [("plain", False)]),
        ("", []),
        (f"Do `{COMMAND}`.", [("Do ", False), (COMMAND, True), (".", False)]),
        (f"`{COMMAND}``{COMMAND}`", [(COMMAND, True), (COMMAND, True)]),
        (f"a` `{COMMAND}` `b`", [("a` ", False), (COMMAND, True), (" `b`", False)]),
        ("`trajdiag score", [("`trajdiag score", False)]),
        ("`rm -rf`", [("`rm -rf`", False)]),
        ("`trajdiag a\nb\u202e`", [("trajdiag a\\u000ab\\u202e", True)]),
    ],
)
def test_only_whole_commands_are_code(text, parts):
    assert prose(text) == [Part(*part) for part in parts]


@pytest.fixture(scope="module")
def results():
    found = planted_results(["mano-joint-linear"], examples=60)
    finding = dataclasses.replace(
        found.findings[0], message=f"{STRAY} `{HOSTILE}` {STRAY}", advice=f"Run `{COMMAND}`; a*b"
    )
    return dataclasses.replace(
        found, profile=[], findings=[finding], verdict=[f"First `{COMMAND}` {STRAY}"]
    )


def test_the_page_shows_commands_as_code_and_obeys_nothing(results):
    page = page_of(results)
    assert page.open == []
    assert len(page.all("script")) == 1
    assert len(page.all("code")) == 4  # the last is among the terms
    assert f"First {COMMAND} {STRAY}" in page.text
    assert f"{STRAY} {HOSTILE} {STRAY}" in page.text
    assert f"Run {COMMAND}; a*b" in page.text


def test_markdown_escapes_around_a_command_and_not_inside(results):
    text = render_markdown(board(results), [], "title")
    stray = r"a\` \<script\>alert(2)\</script\> \`\*b\*\` \`"
    assert f"First `{COMMAND}` {stray}" in text
    assert f"{stray} `{HOSTILE}` {stray} → Run `{COMMAND}`; a\\*b" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the gate's, and isn't", "the gate’s, and isn’t"),
        ("it's `it's` it's", "it’s `it's` it’s"),
        ("'quoted' 5'6 a_'b models' rest", "'quoted' 5'6 a_'b models' rest"),
        ("bob's-run's gate, bob's", "bob's-run’s gate, bob’s"),
        ("l'été", "l’été"),
    ],
)
def test_apostrophes_are_set_but_in_backticks_and_in_names(text, expected):
    assert typeset(text, ["bob's-run", "entropy"]) == expected


def test_the_pages_running_text_has_one_kind_of_apostrophe_and_its_commands_the_typed_one(results):
    command = "trajdiag report bob's"
    verdict = [f"The gate's own of bob's: `{command}`."]
    stores = [dataclasses.replace(results.stores[0], store="bob's")]
    found = dataclasses.replace(results, verdict=verdict, stores=stores)
    assert f"The gate’s own of bob's: {command}." in page_of(found).text
