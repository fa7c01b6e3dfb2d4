"""The page is made of study.json alone."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from studies.page import files, read_study, write_page

from tests.studies.planted import drawn, study
from trajdiag.errors import ConfigError

DOCS = Path(__file__).parents[2] / "docs"


def tables(page: str) -> list[list[list[str]]]:
    """The cells of every table."""
    blocks = re.findall(r"(?:^\|.*\|$\n?)+", page, re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines()]
        for block in blocks
    ]


def test_the_same_study_gives_the_same_bytes():
    assert files(study()) == files(json.loads(json.dumps(study())))


def test_every_line_of_a_table_has_as_many_cells_as_its_head():
    for found in tables(files(study())["study.md"]):
        widths = {len(line) for line in found[:1] + found[2:]}
        assert len(widths) == 1


def test_misses_are_counted_and_said_beside_the_papers_number():
    page = files(study())["study.md"]
    headline = next(t for t in tables(page) if t[0][:2] == ["training", "readout"])
    row = next(line for line in headline if line[:2] == ["fixed uniform", "fixed depth"])
    assert row[2] == "4.50 ± 0.71" and row[3] == "4.00 [3.90, 4.10], 3/3 ≈"
    assert row[4:6] == ["6.00", "4.00, 2/3"]
    native = next(line for line in headline if line[0].startswith("linear gate, uniform"))
    assert native[3] == "not reached, 0/3"


def test_an_interval_apart_from_the_papers_has_no_mark():
    planted = study()
    planted["numbers"]["mano/fixed-uniform"]["entropy"]["depth@95"] = drawn(3.5, 3.4, 3.6)
    headline = next(
        t for t in tables(files(planted)["study.md"]) if t[0][:2] == ["training", "readout"]
    )
    row = next(line for line in headline if line[:2] == ["fixed uniform", "entropy"])
    assert row[3] == "3.50 [3.40, 3.60], 3/3"


def test_the_mean_of_the_seeds_that_reach_a_target_stands_beside_the_honest_median():
    page = files(study())["study.md"]
    dropped = page.partition("### 1.")[2].partition("### 2.")[0]
    assert "| fixed uniform, fixed depth, 98% | 4.00 | 4.00, 2/3 |" in dropped


def test_the_references_and_the_betas_at_the_edge_are_named():
    page = files(study())["study.md"]
    assert "of mano fixed geometric 0.3, seed 1." in page
    assert "it is the largest that was run of linear gate, uniform, β 0.1;" in page


def test_attribution_counts_the_settings_in_which_a_part_is_shown():
    planted = study()
    low = planted["numbers"]["mano/linear-uniform-b0.1"]["native"]
    low["misfit/integrated"] = drawn(0.01, -0.02, 0.03)
    low["learnable/integrated"] = drawn(0.07, 0.05, 0.09)
    section = files(planted)["study.md"].partition("### 4.")[2].partition("### 5.")[0]
    assert "part, of 8 joint settings" in section
    assert "| misfit | 7 | 0 |" in section
    assert "| learnable | 8 | 1 |" in section


def test_what_the_seeds_would_tell_without_the_correction_is_counted():
    planted = study()
    sentence = "1 have an interval clear of 0 before the correction for"
    assert sentence not in files(planted)["study.md"]
    # against 90 +- 1: p is .04 by itself
    area = [0.85, 0.8, 0.9, "interval", [0.85, 0.87, 0.83]]
    planted["numbers"]["mano/mlp-uniform-b0.1"]["native"]["area"] = area
    assert f"{sentence} 10 tests, 1 of them as the paper says" in files(planted)["study.md"]


def test_failed_runs_are_named():
    planted = study()
    planted["failed"] = {"mano-final-s1": "the training loss is nan"}
    assert "- mano-final-s1: the training loss is nan" in files(planted)["study.md"]


def test_figures_are_well_formed_small_and_have_texts():
    found = files(study())
    drawings = {name: text for name, text in found.items() if name.endswith(".svg")}
    assert set(drawings) == {f"figures/study-{n}.svg" for n in ("depth", "regret", "states")}
    for text in drawings.values():
        root = ET.fromstring(text)
        assert root.findtext("{http://www.w3.org/2000/svg}desc")
        assert len(text) < 150_000


def test_a_study_without_numbers_still_has_a_page():
    planted = study()
    planted["numbers"] = {}
    assert "no numbers" in files(planted)["study.md"]


def test_numbers_of_another_form_are_refused_in_a_line(tmp_path: Path):
    path, old = tmp_path / "study.json", study()
    old["numbers"]["mano/fixed-uniform"]["entropy"]["area"] = [0.9, 0.8, 0.95, 3, 3, "drawn"]
    path.write_text(json.dumps(old), encoding="utf-8")
    with pytest.raises(ConfigError, match="run scripts/study"):
        read_study(path)


@pytest.mark.parametrize("text", ['{"sizes": ', "{}", "[]", None])
def test_what_is_no_study_is_refused_in_a_line(tmp_path: Path, text: str | None):
    path = tmp_path / "study.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="run scripts/study"):
        read_study(path)


def test_the_page_in_docs_is_what_its_json_gives(tmp_path: Path):
    if not (DOCS / "study.json").is_file():
        pytest.skip("docs/study.json is not there; scripts/study writes it")
    write_page(read_study(DOCS / "study.json"), tmp_path)
    for path in tmp_path.rglob("*.*"):
        there = DOCS / path.relative_to(tmp_path)
        assert there.read_text("utf-8") == path.read_text("utf-8"), (
            f"{there}: scripts/study --write"
        )


def test_what_differs_is_said_before_the_tables():
    page = files(study())["study.md"]
    told = page.partition("What differs from the paper, plainly:")[2].partition("## Loops")[0]
    assert "- Not so: MLP gate, uniform, largest beta (0.1): it collapses" in told
