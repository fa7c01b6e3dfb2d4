"""The page in a real browser: at a phone's and a desk's width, light and dark, with and without
JavaScript, in print."""

import json
import re

import pytest

from tests.reporting.browser import NAMES, Browser, Tab, chromium
from tests.reporting.planted import planted_results
from tests.reporting.planted_causes import add_latency
from tests.reporting.planted_examples import add_examples
from tests.reporting.test_page import HOSTILE, renamed
from trajdiag.reporting.folder import FIGURES, write_report
from trajdiag.reporting.names import readout_label

pytestmark = pytest.mark.skipif(
    chromium() is None, reason=f"no browser: none of {', '.join(NAMES)} is on PATH"
)
PHONE, DESK = 360, 1440
STORES = ["mano-fixed-uniform", "mano-joint-linear"]

CONTRASTS = """(() => {
  const parse = c => (c.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const over = (top, under, alpha) => [0, 1, 2].map(i => alpha * top[i] + (1 - alpha) * under[i]);
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
    return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const alphaOf = e => { let a = 1; for (; e && e.nodeType == 1; e = e.parentNode)
    a *= Number(getComputedStyle(e).opacity); return a; };
  const behind = (e, x, y) => {
    let colour = parse(getComputedStyle(document.body).backgroundColor);
    const below = document.elementsFromPoint(x, y).filter(o => o !== e && !o.contains(e));
    for (const o of below.reverse()) {
      if (!(o instanceof SVGElement) || /^(svg|g|text)$/.test(o.tagName)) continue;
      const fill = getComputedStyle(o).fill;
      if (fill.startsWith('rgb')) colour = over(parse(fill), colour, alphaOf(o));
    }
    return colour;
  };
  const bad = [], seen = { text: 0, drawn: 0 };
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim());
    if (!own || e.closest('script,style,option') || !e.checkVisibility()) continue;
    const inSvg = e instanceof SVGElement;
    e.scrollIntoView({ block: 'center', inline: 'center' });
    const box = e.getBoundingClientRect();
    if (!box.width) continue;
    let ground = [0, 0, 0, 0];
    if (inSvg) ground = behind(e, box.x + box.width / 2, box.y + box.height / 2);
    else for (let o = e; o && (ground[3] === 0); o = o.parentElement) {
      const c = parse(getComputedStyle(o).backgroundColor);
      ground = c.length < 4 ? [...c, 1] : c;
    }
    const style = getComputedStyle(e), ink = parse(inSvg ? style.fill : style.color);
    const [a, b] = [light(over(ink, ground, alphaOf(e))), light(ground)].sort((p, q) => q - p);
    seen[inSvg ? 'drawn' : 'text'] += 1;
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) bad.push([e.tagName, e.textContent.slice(0, 40), ratio.toFixed(2)]);
  }
  return { bad, seen };
})()"""
"""Every text's contrast with what lies behind it, drawn fills included."""

WIDER = """[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right >
  innerWidth + 1 && !e.closest('.scroll, pre, svg, details:not([open])'))
  .map(e => e.outerHTML.slice(0, 80))"""

SIZES = """[...document.querySelectorAll('svg.panel')].map(s => {
  const box = s.getBoundingClientRect(), drawn = s.getBBox();
  return [s.closest('figure').id, box.width, box.height, drawn.width, drawn.height]; })"""
CUT_OFF = """[...document.querySelectorAll('svg.panel text')].filter(t => {
  const box = t.getBBox(), whole = t.ownerSVGElement.viewBox.baseVal;
  const m = t.getCTM(), outer = t.ownerSVGElement.getCTM();
  const x = (m.e - outer.e) / outer.a + box.x;
  return !m.b && (x < -2 || x + box.width > whole.width + 2);
}).map(t => [t.closest('figure').id, t.textContent])"""


CUT_TABLES = """[...document.querySelectorAll('.scroll, pre')].filter(b => b.scrollWidth >
  b.clientWidth).map(b => [b.getAttribute('aria-label'), b.scrollWidth, b.clientWidth])"""


@pytest.fixture(scope="module")
def browser():
    found = Browser()
    yield found
    found.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    results = planted_results(STORES, examples=300)
    add_latency(results, STORES[1])
    return write_report(results, tmp_path_factory.mktemp("page") / "r") / "report.html"


@pytest.fixture
def tab(browser, page):
    """Opens tabs, and closes them at the end."""
    opened = []

    def open_tab(path=page, **how) -> Tab:
        opened.append(Tab(browser, path, **how))
        return opened[-1]

    yield open_tab
    for each in opened:
        each.close()


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_page_loads_without_complaint_or_request_and_fits_the_window(tab, width, script):
    shown = tab(width=width, script=script)
    shown.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert shown.told("Runtime.exceptionThrown") == []
    assert shown.told("Log.entryAdded") == []
    assert shown.told("Runtime.consoleAPICalled") == []
    requests = [e["request"]["url"] for e in shown.told("Network.requestWillBeSent")]
    assert len(requests) == 1
    assert requests[0].startswith("file:")
    assert shown.run("document.documentElement.scrollWidth") == width
    assert shown.run(WIDER) == []


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_every_figure_is_rendered_and_none_of_its_text_is_cut_off(tab, width):
    shown = tab(width=width)
    sizes = shown.run(SIZES)
    assert {name for name, *_ in sizes} == {f"figure-{name}" for name in FIGURES}
    assert all(wide > 150 and tall > 60 and w > 100 and h > 40 for _, wide, tall, w, h in sizes)
    outside = shown.run(CUT_OFF)
    assert outside == []


def test_a_frontiers_names_lie_apart_beside_its_curves_and_in_the_key_below_them(tab):
    panels = tab(width=DESK).run(
        """[...document.querySelectorAll('#figure-frontier svg.panel')].map(svg => {
          const bottom = Number(svg.dataset.plot.split(' ')[1]);
          const names = [...svg.querySelectorAll('text')].filter(t => t.closest('[data-key]'));
          const boxes = [...svg.querySelectorAll('text')].map(t => t.getBBox());
          const meet = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width
            && a.y + 3 < b.y + b.height && b.y + 3 < a.y + a.height;
          return [names.length, names.filter(t => t.getBBox().y < bottom).length,
            boxes.filter((a, i) => boxes.some((b, j) => i < j && meet(a, b))).length]; })"""
    )
    assert len(panels) == len(STORES)
    for named, beside, overlapping in panels:
        assert named - beside >= 5
        assert beside >= 3
        assert overlapping == 0


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out_from_what_lies_behind_it(tab, dark):
    shown = tab(width=DESK, dark=dark)
    shown.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = shown.run(CONTRASTS)
    assert found["seen"]["text"] > 500
    assert found["seen"]["drawn"] > 300
    assert found["bad"] == []


def test_the_colour_scheme_is_the_readers(tab):
    grounds = [
        tab(width=DESK, dark=dark).run("getComputedStyle(document.body).backgroundColor")
        for dark in (False, True)
    ]
    assert grounds == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


def test_wide_tables_scroll_in_boxes_that_the_keyboard_reaches(tab):
    shown = tab(width=PHONE)
    boxes = shown.run(
        "[...document.querySelectorAll('.scroll')].map(b => [b.tabIndex, b.getAttribute('role'),"
        "b.getAttribute('aria-label'), b.scrollWidth > b.clientWidth])"
    )
    assert any(scrolls for *_, scrolls in boxes)
    assert all(index == 0 and role == "region" and label for index, role, label, _ in boxes)
    shown.run(
        "[...document.querySelectorAll('.scroll')].find(b => b.scrollWidth > b.clientWidth).focus()"
    )
    for _ in range(3):
        shown.press("ArrowRight", 39)
    moved = "new Promise(done => setTimeout(() => done(document.activeElement.scrollLeft), 500))"
    result = shown.call("Runtime.evaluate", expression=moved, awaitPromise=True)
    assert result["result"]["value"] > 0


def test_at_a_desks_width_every_table_of_two_stores_is_seen_whole(tab):
    shown = tab(width=DESK)
    shown.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert shown.run("document.querySelectorAll('#scoreboard .scroll').length") > 5
    assert shown.run(CUT_TABLES) == []


def test_commands_are_wrapped_on_a_phone(tab):
    shown = tab(width=PHONE)
    wide = "[...document.querySelectorAll('pre')].some(p => p.scrollWidth > p.clientWidth)"
    assert shown.run(wide) is False


def test_on_paper_every_table_of_two_stores_is_seen_whole(tab):
    sheet = tab(width=717, media="print")  # A4 less the margins
    assert sheet.run(CUT_TABLES) == []


def test_in_print_nothing_is_folded_away_or_cut_off(tab, tmp_path):
    shown = tab(width=794, media="print", dark=True)
    ground = shown.run("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    hidden = shown.run(
        "[...document.querySelectorAll('details:not(.series, .example) > :not(summary)')]"
        ".filter(e => !e.getBoundingClientRect().height).length"
    )
    assert hidden == 0
    shown.printed(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 50_000


def test_names_and_prompts_with_markup_and_marks_of_direction_are_shown_and_not_obeyed(
    tab, tmp_path
):
    results = planted_results(STORES, examples=60)
    results.examples.clear()
    add_examples(results, STORES[1], prompt=f"{HOSTILE} {{}} </details></script>")
    results = renamed(results, HOSTILE)
    shown = tab(write_report(results, tmp_path / "r") / "report.html", width=DESK)
    assert shown.told("Runtime.exceptionThrown") == []
    assert shown.told("Log.entryAdded") == []
    assert shown.told("Page.javascriptDialogOpening") == []
    assert shown.run("document.querySelectorAll('script').length") <= 1
    text = shown.run("document.body.textContent")
    assert "<script>alert('x')</script>" in text
    assert "</details></script>" in text
    assert "\u202e" not in text
    outside = "[...document.querySelectorAll('.example')].every(e => e.closest('#examples'))"
    assert shown.run(outside) is True


def test_pointing_at_a_curve_tells_its_readout_depth_and_accuracy(tab, page):
    shown = tab(width=DESK)
    label, *place = shown.run(
        """(() => { const svg = document.querySelector('#figure-frontier svg.panel');
        svg.scrollIntoView({ block: 'center' });
        const dot = svg.querySelector('[data-key]:not([data-key="fixed depth"]) use');
        const box = dot.getBoundingClientRect();
        return [dot.closest('g[data-key]').dataset.key, box.x + box.width / 2,
          box.y + box.height / 2]; })()"""
    )
    shown.move(*place)
    told = shown.run("document.querySelector('.tip').textContent")
    wanted = r", (\d+\.\d+) loops(?: \[.*?\])?, (\d+\.\d)%"
    depth, accuracy = (float(n) for n in re.findall(wanted, told)[0])
    rows = json.loads((page.parent / "results.json").read_text())["scores"]
    found = {
        row["metric"]: row["value"]
        for row in rows
        if row["store"] == STORES[0] and readout_label(row["readout"]) == label
    }
    assert depth == pytest.approx(found["depth@final"], abs=0.1)
    assert accuracy / 100 == pytest.approx(found["accuracy@final"], abs=0.01)
    assert shown.told("Runtime.exceptionThrown") == []


def test_an_operating_point_is_told_with_the_intervals_of_its_depth_and_accuracy(tab, page):
    shown = tab(width=DESK)
    shown.run("document.querySelector('#figure-frontier svg.panel').focus()")
    told = set()
    for key, code in [("ArrowRight", 39)] * 7:
        shown.press(key, code)
        told.add(shown.run("document.querySelector('.tip').textContent"))
    label = {text.split(", ")[0] for text in told}
    assert len(label) == 1
    rows = json.loads((page.parent / "results.json").read_text())["scores"]
    found = {
        row["metric"]: row
        for row in rows
        if row["store"] == STORES[0] and {readout_label(row["readout"])} == label
    }
    depth, low, high = (found["depth@final"][of] for of in ("value", "low", "high"))
    parts = [100 * found["accuracy@final"][of] for of in ("value", "low", "high")]
    assert (
        f"{label.pop()}, {depth:.2f} loops [{low:.2f}, {high:.2f}], "
        f"{parts[0]:.1f}% [{parts[1]:.1f}, {parts[2]:.1f}]"
    ) in told


def test_a_difficultys_signal_is_told_with_its_interval(tab):
    shown = tab(width=DESK)
    shown.run("document.querySelector('#figure-signals svg.panel').focus()")
    shown.press("ArrowRight", 39)
    told = shown.run("document.querySelector('.tip').textContent")
    found = re.fullmatch(r"difficulty 1, loop \d+, (.+) \[(.+), (.+)\]", told)
    assert found
    value, low, high = map(float, found.groups())
    assert low <= value <= high


def test_a_point_without_an_interval_names_the_nearest_that_has_one(tab):
    shown = tab(width=DESK)
    place = shown.run(
        """(() => { const svg = document.querySelector('#figure-frontier svg.panel');
        svg.scrollIntoView({ block: 'center' });
        const [left, bottom, right, top, x0, y0, x1, y1] = svg.dataset.plot.split(' ').map(Number);
        const part = svg.querySelector('[data-series=entropy]'), path = part.querySelector('path');
        const known = part.dataset.known.split(';').map(r => r.split(' ').map(Number));
        const at = Array.from({ length: 200 }, (_, i) =>
          path.getPointAtLength(path.getTotalLength() * i / 200))
          .filter(p => p.y < (top + bottom) / 2).find(p => known.every(([x]) =>
          Math.abs(left + (x - x0) / (x1 - x0) * (right - left) - p.x) > 12));
        for (const other of svg.querySelectorAll('[data-series]'))
          if (other !== part) other.classList.add('off');
        const on = new DOMPoint(at.x, at.y).matrixTransform(svg.getScreenCTM());
        return [on.x, on.y]; })()"""
    )
    shown.move(*place)
    told = shown.run("document.querySelector('.tip').textContent")
    assert re.fullmatch(
        r"entropy, [\d.]+ loops, [\d.]+%; nearest interval: [\d.]+ loops( \[.*\])?, "
        r"[\d.]+% \[[\d.]+, [\d.]+\]",
        told,
    )


def test_the_arrow_keys_walk_through_the_values_of_a_drawing(tab):
    shown = tab(width=DESK)
    shown.run("document.querySelector('#figure-exits svg.panel').focus()")
    for _ in range(2):
        shown.press("ArrowRight", 39)
    assert shown.run("document.querySelector('.tip').textContent").startswith(
        "difficulty 1, loop 2: "
    )
    shown.press("ArrowDown", 40)
    told = shown.run("document.querySelector('.tip').textContent")
    assert re.fullmatch(r"difficulty 2, loop 2: \d+\.\d% \[.*, .*\]", told)
    shown.press("Escape", 27)
    assert shown.run("document.querySelector('.tip').hidden") is True


def test_a_series_is_hidden_and_shown_by_its_button_and_a_key_can_press_it(tab):
    shown = tab(width=DESK)
    shown.run("document.querySelectorAll('.series').forEach(d => d.open = true)")
    button = (
        "[...document.querySelectorAll('#figure-frontier .toggles button')]"
        ".find(b => b.textContent === 'entropy')"
    )
    drawn = (
        "getComputedStyle(document.querySelector('#figure-frontier [data-series=entropy]')).display"
    )
    shown.run(f"{button}.focus()")
    assert shown.run(drawn) != "none"
    for display in ("none", "inline"):
        shown.press(" ", 32, " ")
        assert shown.run(drawn) == display
        assert shown.run(f"{button}.ariaPressed") == str(display == "inline").lower()


def test_examples_are_filtered_by_verdict_and_unfold_without_javascript(tab):
    shown = tab(width=DESK)
    visible = (
        "[...new Set([...document.querySelectorAll('[data-verdict]')]"
        ".filter(e => !e.hidden).map(e => e.dataset.verdict))]"
    )
    assert set(shown.run(visible)) == {"early", "late", "trajectory", "ok"}
    shown.run(
        "[...document.querySelectorAll('#examples .toggles button')]"
        ".find(b => b.textContent.includes('too late')).click()"
    )
    assert shown.run(visible) == ["late"]
    plain = tab(width=PHONE, script=False)
    for fold in (".sample", ".example"):
        plain.run(f"document.querySelector('{fold}').scrollIntoView({{ block: 'center' }})")
        x, y = plain.run(
            "(b => [b.x + 9, b.y + b.height / 2])"
            f"(document.querySelector('{fold} > summary').getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            plain.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        assert plain.run(f"document.querySelector('{fold}').open") is True
    assert plain.run("document.querySelector('.example table').getBoundingClientRect().height") > 40


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A page of one store."""
    results = planted_results(STORES[1:], examples=300)
    return write_report(results, tmp_path_factory.mktemp("one") / "r") / "report.html"


ALONE = """['frontier', 'accuracy'].map(name => {
  const shown = [...document.querySelectorAll(`#figure-${name} svg.panel`)]
    .filter(s => s.checkVisibility());
  const text = shown[0].querySelector('text');
  return [shown.length, shown[0].getBoundingClientRect().width,
    parseFloat(getComputedStyle(text).fontSize) * shown[0].getScreenCTM().a]; })"""


def test_a_panel_by_itself_is_drawn_larger_at_a_desk_and_its_text_keeps_its_size(tab, one, page):
    desk, phone = (tab(one, width=width) for width in (DESK, PHONE))
    before = tab(page, width=DESK).run(ALONE)
    for (drawn, wide, size), (_, many, of_many) in zip(desk.run(ALONE), before, strict=True):
        assert drawn == 1
        assert many < 450 < wide <= 720
        assert size >= 0.95 * of_many
    for drawn, wide, size in phone.run(ALONE):
        assert drawn == 1
        assert wide <= PHONE
        assert size >= 10
    assert phone.run("document.documentElement.scrollWidth") == PHONE
    assert desk.run(CUT_OFF) == phone.run(CUT_OFF) == []


@pytest.mark.parametrize(("width", "columns"), [(DESK, 2), (PHONE, 1)])
def test_findings_fill_the_width_of_a_desk_in_the_order_of_their_severity(
    tab, tmp_path, width, columns
):
    results = planted_results(STORES, examples=60)
    results.findings.extend(3 * results.findings)
    shown = tab(write_report(results, tmp_path / "r") / "report.html", width=width)
    places = shown.run(
        "[...document.querySelectorAll('.findings li')].map(li => {"
        "const box = li.getBoundingClientRect(); return [box.x, box.y]; })"
    )
    assert len({x for x, _ in places}) == columns
    assert places == sorted(places)
