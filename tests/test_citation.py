"""CITATION.cff is of this version and licence, and holds what its format asks for."""

import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def test_the_citation_is_of_this_version_and_licence():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= citation.keys(), "what CFF 1.2.0 requires"
    assert all("name" in each for each in citation["authors"])
    assert citation["title"] == project["name"]
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_it_refers_to_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= paper.keys(), "what CFF 1.2.0 requires"
    assert paper["identifiers"][0]["value"] == "arXiv:2607.20519"
    assert paper["url"].endswith("2607.20519")
