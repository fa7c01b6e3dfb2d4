"""docs/tutorial.ipynb runs from the top, on its own data, to the verdict that it is about."""

import ast
import json
from pathlib import Path

import matplotlib as mpl
import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorial.ipynb"


def cells(kind: str) -> list[dict]:
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    return [cell for cell in content["cells"] if cell["cell_type"] == kind]


def run(source: str, names: dict[str, object]) -> object:
    """As a notebook does: the value of a last line that is an expression."""
    tree = ast.parse(source)
    last = tree.body[-1]
    shown = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
    body = tree.body[:-1] if shown else tree.body
    exec(compile(ast.Module(body, []), NOTEBOOK.name, "exec"), names)
    if not isinstance(last, ast.Expr) or not shown:
        return None
    return eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)


@pytest.fixture
def names(tmp_path, monkeypatch) -> dict[str, object]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAJDIAG_CACHE", raising=False)
    mpl.use("agg")
    return {"__name__": "__main__"}


def test_it_runs_to_the_verdict_that_the_readout_is_at_fault(names, capsys):
    shown = [run("".join(cell["source"]), names) for cell in cells("code")]
    verdict = capsys.readouterr().out
    assert "readout" in verdict
    parts = {
        row.part: row.value
        for row in names["results"].diagnosis
        if (row.readout, row.at) == ("native", "integrated")
    }
    assert parts["misfit"] > 2 * abs(parts["learnable"]) > 0, "a simple signal finds most of it"
    pages = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert len(pages) == 4 and all(page.startswith("<") for page in pages)
    assert Path("tutorial-cache/report/report.html").is_file()


def test_it_is_committed_without_outputs_that_could_grow_stale():
    assert all(cell["outputs"] == [] for cell in cells("code"))
    assert len({cell["id"] for kind in ("code", "markdown") for cell in cells(kind)}) == len(
        cells("code")
    ) + len(cells("markdown"))
