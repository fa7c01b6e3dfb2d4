"""A report on disk: whole, the same bytes for the same results, and never over anything that is not
one."""

import csv
import dataclasses
import io
import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.reporting.planted import planted_results
from trajdiag.errors import ReportError
from trajdiag.reporting.board import DRAWN, FEW, IN_FULL, MANY
from trajdiag.reporting.csv_files import csv_table
from trajdiag.reporting.folder import FIGURES, OWN, report_files, write_report
from trajdiag.results import ROW_TYPES, FrontierRow, Results

STORES = ["mano-fixed-uniform", "mano-joint-linear"]


@pytest.fixture(scope="module")
def results() -> Results:
    return planted_results(STORES, examples=300)


@pytest.fixture(scope="module")
def report(results, tmp_path_factory) -> Path:
    return write_report(results, tmp_path_factory.mktemp("reports") / "deep" / "report")


@pytest.fixture(scope="module")
def brief() -> Results:
    """Results without the rows that most panels draw: quick to render."""
    return dataclasses.replace(planted_results(STORES[:1], examples=60), profile=[], frontier=[])


def contents(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_a_report_is_these_files_and_no_others(report):
    assert contents(report).keys() == OWN
    assert [p.name for p in report.parent.iterdir()] == ["report"]


def test_the_same_results_give_the_same_bytes(results, report, tmp_path):
    assert contents(write_report(results, tmp_path / "again")) == contents(report)


def test_results_json_holds_every_row(results, report):
    assert json.loads((report / "results.json").read_text(encoding="utf-8")) == results.to_dict()


@pytest.mark.parametrize("first", [*"=+-@\t\r\n", "＝"])
def test_no_text_in_a_csv_begins_as_a_formula_and_numbers_stay(first):
    name = f"{first}1+1"
    row = FrontierRow(store=name, readout="x=1", threshold=-0.5, depth=1.5, accuracy=-0.0)
    text = csv_table(Results(frontier=[row]), "frontier")
    ((store, *others),) = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert store == f"'{name}"
    assert others == ["x=1", "-0.5", "1.5", "-0.0"]


@pytest.mark.parametrize("table", ROW_TYPES)
def test_each_csv_holds_the_rows_of_its_table(results, report, table):
    with (report / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [dataclasses.asdict(row) for row in getattr(results, table)]
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        for column, value in wanted.items():
            if value is None:
                assert row[column] == ""
            elif isinstance(value, float):
                assert float(row[column]) == value
            elif isinstance(value, dict | list):
                assert json.loads(row[column]) == value
            else:
                assert row[column].removeprefix("'") == str(value)


@pytest.mark.parametrize("figure", FIGURES)
def test_each_figure_is_one_svg_with_its_own_paper_for_light_and_dark(report, figure):
    text = (report / "figures" / f"{figure}.svg").read_text(encoding="utf-8")
    root = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    assert len(root.findtext(f"{space}desc", "")) > 40
    assert "prefers-color-scheme:dark" in root.findtext(f"{space}style", "")
    paper = root.find(f"{space}rect")
    assert paper is not None
    assert paper.get("class") == "f-paper"
    drawn = {element.get(key) for element in root.iter() for key in ("fill", "stroke")}
    unthemed = [
        element.attrib
        for element in root.iter()
        if {element.get("fill"), element.get("stroke")} - {None, "none"}
        and not element.get("class")
    ]
    assert len(drawn) > 3
    assert unthemed == []
    assert text.replace('xmlns="http://www.w3.org/2000/svg"', "").count("http") == 0
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))


def test_markdown_links_every_figure_and_prints_every_command(report, results):
    text = (report / "report.md").read_text(encoding="utf-8")
    assert all(f"](figures/{figure}.svg)" in text for figure in FIGURES)
    assert all(command in text for row in results.stores for command in row.commands)


def test_an_earlier_report_is_replaced(report, brief, tmp_path):
    shutil.copytree(report, tmp_path / "r")
    write_report(brief, tmp_path / "r")
    assert (tmp_path / "r" / "results.json").read_text(encoding="utf-8") == brief.to_json()
    assert not (tmp_path / "r" / "figures" / "frontier.svg").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize("name", ["notes.txt", "figures/mine.svg"])
def test_a_folder_with_somebodys_own_files_is_refused_and_kept(report, brief, tmp_path, name):
    shutil.copytree(report, tmp_path / "r")
    (tmp_path / "r" / name).write_text("mine")
    before = contents(tmp_path / "r")
    with pytest.raises(ReportError, match=f"holds what is not a report's \\({name}\\)"):
        write_report(brief, tmp_path / "r")
    assert contents(tmp_path / "r") == before


def test_a_link_to_somebodys_folder_is_somebodys_own(report, brief, tmp_path):
    shutil.copytree(report, tmp_path / "r")
    (tmp_path / "r" / "tables" / "mine").symlink_to(tmp_path)
    with pytest.raises(ReportError, match=r"holds what is not a report's \(tables/mine\)"):
        write_report(brief, tmp_path / "r")


def test_an_empty_name_is_no_folder(brief, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ReportError, match="a report needs a folder"):
        write_report(brief, "")
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_way_is_refused(brief, tmp_path):
    (tmp_path / "r").write_text("mine")
    with pytest.raises(ReportError, match="is a file"):
        write_report(brief, tmp_path / "r")
    with pytest.raises(ReportError, match=r"no report can lie in .*/r, which is a file"):
        write_report(brief, tmp_path / "r" / "deeper")
    assert (tmp_path / "r").read_text() == "mine"


def test_a_write_that_fails_leaves_the_earlier_report_and_nothing_else(
    report, brief, tmp_path, monkeypatch
):
    shutil.copytree(report, tmp_path / "r")
    before = contents(tmp_path / "r")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        ReportError, match=r"could not be written to .*/r: No space left on device; free"
    ):
        write_report(brief, tmp_path / "r")
    assert contents(tmp_path / "r") == before
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_an_empty_folder_is_filled(brief, tmp_path):
    (tmp_path / "r").mkdir()
    assert write_report(brief, tmp_path / "r") == tmp_path / "r"
    assert (tmp_path / "r" / "report.html").stat().st_mode & 0o777 == 0o644


def test_of_many_stores_the_first_are_shown_in_full_and_the_page_grows_by_little_for_the_rest():
    sizes = {}
    for count in (FEW + 1, FEW + 3):
        names = [f"mano-joint-linear-seed-{number}" for number in range(count)]
        results = planted_results(names, examples=60)
        results.replicas.clear()
        html = report_files(results, "t")["report.html"]
        assert f"Shown for the first {IN_FULL} of {count} stores" in html
        assert html.count('aria-label="mean exit loop') == IN_FULL * 6
        assert html.count("accuracy against mean exit depth;") == count
        sizes[count] = len(html.encode())
    per_store = (sizes[FEW + 3] - sizes[FEW + 1]) / 2
    assert sizes[FEW + 1] + (30 - FEW - 1) * per_store < 3e6


def test_of_very_many_stores_the_first_are_drawn_and_all_stand_in_tables_and_files():
    names = [f"mano-joint-linear-seed-{number}" for number in range(MANY + 1)]
    results = planted_results(names, examples=60)
    results.replicas.clear()
    files = report_files(results, "t")
    html = files["report.html"]
    assert html.count("accuracy against mean exit depth;") == DRAWN
    assert html.count('<details class="sample"') == DRAWN
    assert f"Shown for the first {DRAWN} of {MANY + 1} stores" in html
    assert f"Shown for the first {DRAWN} of {MANY + 1} stores" in files["report.md"]
    scoreboards = html[html.index('<section id="scoreboard">') :].partition("</section>")[0]
    assert f">{names[-1]}</span></caption>" in scoreboards
    assert {row["store"] for row in json.loads(files["results.json"])["frontier"]} == set(names)
