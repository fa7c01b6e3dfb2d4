"""The page as a reader's browser meets it."""

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser
from itertools import combinations

import pytest
from matplotlib.textpath import TextPath

from tests.reporting.planted import planted_results
from trajdiag.reporting import tables
from trajdiag.reporting.board import board
from trajdiag.reporting.canvas import blank, percent_ticks, style, whole_ticks
from trajdiag.reporting.curves import TICKS
from trajdiag.reporting.difficulty_figures import accuracy_figure
from trajdiag.reporting.figures import draw_figures, frontier_figure, signal_figure
from trajdiag.reporting.folder import FIGURES
from trajdiag.reporting.html import render_html
from trajdiag.reporting.markdown import render_markdown
from trajdiag.reporting.svg import NARROW
from trajdiag.results import ROW_TYPES, ProfileRow, Results

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}
HOSTILE = "<script>alert('x')</script> \"q\" & |`$x_1$ \u202egnp.exe\n"


class Page(HTMLParser):
    """Elements with their attributes, the text, and the tags that were left open or closed
    twice."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(results: Results) -> Page:
    indexed = board(results)
    return Page(
        render_html(
            indexed, draw_figures(indexed), results.stores[0].store if results.stores else "none"
        )
    )


@pytest.fixture(scope="module")
def batch() -> Page:
    return page_of(planted_results(["mano-fixed-uniform", "mano-joint-linear"]))


def test_the_page_is_well_formed_and_needs_no_network(batch):
    assert batch.open == []
    assert not batch.all("link") + batch.all("img") + batch.all("iframe")
    urls = [
        a.get(key) for _, a in batch.elements for key in ("href", "src", "action") if a.get(key)
    ]
    assert urls
    assert all(
        url and (url[0] == "#" or "://" not in url) and not url.startswith("//") for url in urls
    )
    (policy,) = [
        a["content"] for a in batch.all("meta") if a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_the_policy_allows_the_one_small_script_by_its_hash_and_no_other():
    results = planted_results(["mano-fixed-uniform"], examples=60)
    html = render_html(board(results), [], "t")
    (script,) = re.findall("<script>(.*?)</script>", html, re.DOTALL)
    assert len(script.encode()) < 15 * 1024
    wanted = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall('script-src ([^;"]*)', html)
    assert policy == f"'sha256-{wanted}'"


def test_every_figure_is_on_the_page_and_every_drawing_has_a_text_alternative(batch):
    assert [a["id"] for a in batch.all("figure")] == [f"figure-{name}" for name in FIGURES]
    panels = [a for a in batch.all("svg") if a.get("class") == "panel"]
    assert len(panels) > 20
    assert all(a.get("role") == "img" and len(a.get("aria-label") or "") > 20 for a in panels)
    assert all(a.get("aria-hidden") for a in batch.all("svg") if a.get("class") != "panel")


def test_links_and_ids_within_the_page_meet(batch):
    ids = [a["id"] for _, a in batch.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    targets = {
        (a["href"] or "")[1:] for _, a in batch.elements if (a.get("href") or "").startswith("#")
    }
    assert targets <= set(ids)


def test_every_table_is_linked_as_a_file(batch):
    links = {a["href"] for a in batch.all("a")}
    assert {f"tables/{table}.csv" for table in ROW_TYPES} <= links


def test_the_advice_of_a_finding_stands_apart_and_its_numbers_stay_in_the_data(batch):
    (finding,) = planted_results(["mano-fixed-uniform", "mano-joint-linear"]).findings
    assert finding.message.replace("'", "’") in batch.text
    assert finding.advice in batch.text
    assert [a for a in batch.all("p") if a.get("class") == "advice"]
    assert "trajectory_regret_low" not in batch.text


def test_the_first_things_said_are_the_verdict_and_the_regret(batch):
    results = planted_results(["mano-fixed-uniform", "mano-joint-linear"])
    said = [sentence.replace("'", "’") for sentence in results.verdict]
    places = [batch.text.index(sentence) for sentence in said]
    assert places == sorted(places)
    assert (
        places[-1]
        < batch.text.index("Where the regret lies")
        < batch.text.index("Attribution at the operating point")
        < batch.text.index("Accuracy against mean exit depth")
        < batch.text.index("In the order of their area on validation")
    )


def test_every_score_of_the_scoreboard_is_printed_with_its_interval(batch):
    results = planted_results(["mano-fixed-uniform", "mano-joint-linear"])
    row = next(r for r in results.scores if r.readout == "native" and r.metric == "depth@final")
    assert row.value is not None
    assert row.low is not None
    assert row.high is not None
    assert f"{row.value:.2f}" in batch.text
    assert f"[{row.low:.2f}, {row.high:.2f}]" in batch.text


def test_commands_and_fingerprints_are_printed_as_they_are(batch):
    for row in planted_results(["mano-fixed-uniform", "mano-joint-linear"]).stores:
        assert all(command in batch.text for command in row.commands)
        assert row.fingerprint in batch.text


@pytest.mark.parametrize(
    ("slack", "said"),
    [({}, "0.5 points"), ({"slack": 0.02}, "2 points"), ({"slack": 0.01}, "1 point")],
)
def test_the_terms_say_the_slack_that_was_asked_for(slack, said):
    planted = planted_results(["mano-fixed-uniform"], examples=60)
    results = dataclasses.replace(planted, config={**planted.config, **slack})
    for text in (page_of(results).text, render_markdown(board(results), [], "title")):
        assert f"whose accuracy is within {said} of the last loop’s" in text
        assert f"the lowest final validation accuracy among them, less {said}." in text
        assert "half a point" not in text and "{slack}" not in text


def test_what_made_a_store_is_said_once_and_what_is_not_known_left_out():
    (row,) = planted_results(["mano-joint-linear"], examples=60).stores
    whole = dict(tables.provenance(row))
    assert whole["Model"].startswith("mano-joint-linear (")
    row = dataclasses.replace(
        row,
        model={"name": "arrays", "family": "arrays", "sha256": "ab"},
        task={"name": "arrays", "parameters": {}, "notes": {}},
    )
    facts = dict(tables.provenance(row))
    assert (facts["Model"], facts["Weights"], facts["Task"]) == ("arrays", "SHA-256 ab", "arrays")
    row = dataclasses.replace(row, model={"name": "m", "family": "ouro", "source": None})
    facts = dict(tables.provenance(row))
    assert facts["Model"] == "m (ouro)"
    assert "Weights" not in facts
    assert not any("None" in text for text in facts.values())


def test_a_long_unit_stays_within_its_panel_of_the_signal_figure():
    results = planted_results(["mano-joint-linear"], examples=60)
    unit = "nats of cumulative hazard, -log(1 - CDF)"
    readouts = [dataclasses.replace(row, unit=unit) for row in results.readouts]
    with style():
        figure = signal_figure(board(dataclasses.replace(results, readouts=readouts)))
    for panel in figure.panels:
        lines = re.findall(r'<text transform="translate\((\S+) \S+\)[^>]*>([^<]+)', panel.inline())
        notes = [(float(x), text) for x, text in lines if "means stop" in text or "nats" in text]
        assert len(notes) == 2
        for left, text in notes:
            width = TextPath((0, 0), text, size=10).get_extents().width
            assert left + width < NARROW


def test_of_a_confidence_in_nats_the_signal_figure_says_what_they_are():
    results = planted_results(["mano-joint-linear"], examples=60)
    results = dataclasses.replace(
        results, readouts=[r for r in results.readouts if r.readout != "entropy"]
    )
    with style():
        panels = {panel.title: panel.body for panel in signal_figure(board(results)).panels}
    assert {title for title, body in panels.items() if "−log(1 − p)" in body} == {"top1"}


def test_hostile_names_are_shown_and_not_obeyed():
    results = planted_results(["mano-fixed-uniform", "mano-joint-linear"], examples=60)
    results.profile.clear()
    page = page_of(renamed(results, HOSTILE))
    assert page.open == []
    assert len(page.all("script")) == 1
    assert "<script>alert('x')</script>" in page.text
    assert "\u202e" not in page.text
    assert "\\u202egnp.exe" in page.text


@pytest.mark.parametrize("table", [table for table in ROW_TYPES if table != "stores"])
def test_a_page_without_one_of_the_tables_still_renders(table):
    results = planted_results(["mano-joint-linear"], examples=60)
    results.profile[:] = results.profile[:40]
    page = page_of(dataclasses.replace(results, **{table: []}))
    assert page.open == []


def test_results_of_nothing_render_too():
    assert "no verdict" in page_of(Results()).text


def test_one_loop_and_undefined_values_render_as_dashes():
    results = planted_results(["mano-fixed-uniform"], examples=60)
    first = [row for row in results.profile if row.loop == 1]
    undefined = [
        dataclasses.replace(row, value=None, low=None, high=None) for row in results.scores
    ]
    page = page_of(
        dataclasses.replace(
            results,
            stores=[dataclasses.replace(results.stores[0], loops=1)],
            profile=[dataclasses.replace(row, value=float("nan")) for row in first],
            scores=undefined,
        )
    )
    assert page.open == []
    assert not {"nan", "nan%", "None"} & set(page.text.split())


def renamed(value, name: str):
    """`value` with the joint store and the MLP gate called `name`."""
    if isinstance(value, str):
        return value.replace("mano-joint-linear", name).replace("mlp-ponder", f"{name}g")
    if isinstance(value, list):
        return [renamed(item, name) for item in value]
    if isinstance(value, dict):
        return {key: renamed(item, name) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: renamed(getattr(value, f.name), name) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value


def of_tasks(results: Results, tasks: dict[str, dict]) -> Results:
    stores = [dataclasses.replace(row, task=tasks[row.store]) for row in results.stores]
    return dataclasses.replace(results, stores=stores)


def lows(results: Results) -> list[float]:
    """Where the accuracy axis of each store's frontier begins."""
    with style():
        panels = frontier_figure(board(results)).panels
    return [float(re.findall(r'data-plot="([^"]*)"', p.data)[0].split()[5]) for p in panels]


def test_stores_of_one_task_share_a_range_of_accuracy_and_those_of_others_have_their_own():
    names = ["low", "joint", "high"]
    results = planted_results(names, examples=400)
    shift = {"low": 0.0, "joint": 0.2, "high": 1.0}
    rows = [
        dataclasses.replace(r, accuracy=r.accuracy + shift[r.store] * (1 - r.accuracy) * 0.9)
        for r in results.frontier
    ]
    results = dataclasses.replace(results, frontier=rows)
    mano, parity = results.stores[0].task, {"name": "parity", "parameters": {"seed": 1}}
    own = [lows(of_tasks(results, {n: {"name": n} for n in names}))[i] for i in range(3)]
    assert own[0] < own[2]
    tasks = {"low": mano, "joint": parity, "high": parity | {"parameters": {"seed": 2}}}
    assert lows(of_tasks(results, tasks)) == [own[0], min(own[1:]), min(own[1:])]
    assert lows(results) == [min(own)] * 3
    unknown = {name: {"name": "arrays", "parameters": {}} for name in names}
    assert lows(of_tasks(results, unknown)) == own


def test_the_axis_of_a_frontier_begins_and_ends_at_ticks_around_what_it_shows():
    wide = []
    for least, top in combinations([n / 20 for n in range(21)], 2):
        low, high = whole_ticks(least, top, TICKS)
        canvas = blank(300, 200, left=0, right=0, top=0, bottom=0)
        percent_ticks(canvas.yaxis, low, high, TICKS)
        places = canvas.get_yticks()
        assert low <= least + 1e-9
        assert high >= top - 1e-9
        assert (places[0], places[-1]) == pytest.approx((low, high))
        wide.append((high - low) / max(top - least, 0.02))
    assert max(wide) <= 4


def test_a_frontier_is_drawn_where_the_operating_points_lie():
    results = planted_results(["mano"], examples=400)
    points = [
        row
        for row in results.scores
        if row.metric == "accuracy@final" and row.readout in ("entropy", "mlp-ponder", "fixed")
    ]
    least = min(row.low for row in points if row.low is not None)
    assert min(row.accuracy for row in results.frontier) < 0.5
    assert least - 0.25 < lows(results)[0] < least


def test_in_a_frontier_the_readouts_of_the_first_screen_are_bold_and_named_where_nothing_is():
    with style():
        (panel,) = frontier_figure(board(planted_results(["mano-joint"], examples=400))).panels
    text = r'<g data-key="([^"]*)"><text x="(\S+)" y="(\S+)"'
    named = re.findall(text, panel.body)
    plot = [float(n) for n in re.findall(r'data-plot="([^"]*)"', panel.data)[0].split()[:4]]
    beside = {label: (float(x), float(y)) for label, x, y in named if float(y) < plot[1]}
    assert {"native gate", "hindsight oracle", "learned bound"} <= beside.keys()
    assert {label for label, *_ in named} == {
        "native gate", "mlp-ponder", "entropy", "hindsight oracle", "learned bound", "fixed depth",
    }  # fmt: skip
    for a, b in combinations(beside.values(), 2):
        assert abs(a[1] - b[1]) >= 12 or abs(a[0] - b[0]) > 50, beside


@pytest.mark.parametrize(
    ("shares", "spread", "framed"),
    [
        ([0.20, 0.80, 0.95, 0.95], 0.02, 2),
        ([0.99, 0.99, 0.99, 0.99], 0.01, 0),
        ([0.90, 0.93, 0.92, 0.92], 0.04, None),  # cannot be told from loop 1
        ([0.01, 0.07, 0.04, 0.04], 0.04, None),
        ([0.16, 0.15, 0.15, 0.14], 0.04, None),  # of seven classes: guessing
    ],
)
def test_a_loop_is_framed_where_the_best_is_clearly_above_guessing_and_loop_1(
    shares, spread, framed
):
    results = planted_results(["mano"], examples=60)
    results.profile[:] = [
        ProfileRow(
            store="mano",
            readout=None,
            quantity="accuracy",
            loop=loop,
            difficulty=1.0,
            value=share,
            n=100,
            low=share - spread,
            high=share + spread,
        )
        for loop, share in enumerate(shares, 1)
    ]
    (panel,) = accuracy_figure(board(results)).panels
    frames = re.findall(r'<path d="M([\d.]+) [^"]*" class="s-[^"]*" fill="none"', panel.body)
    cell = float(panel.data.split('"')[1].split()[2])
    assert [int((float(x) - 36) / cell) for x in frames] == ([] if framed is None else [framed])
