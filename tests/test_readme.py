"""What the README and the pages that go on from it show is what happens: their commands run, their
tables are the record's, their links lead somewhere."""

import json
import re
import shlex
from pathlib import Path

import numpy
import pytest

from trajdiag.cli import app, main

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/guide.md", "docs/models.md")
"""In the order in which they are read."""
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
README = TEXTS["README.md"]
ALL = "\n".join(TEXTS.values())


def console_commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", ALL, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", ALL, re.DOTALL)


def own_arrays() -> dict[str, numpy.ndarray]:
    """What a reader has of a run of their own."""
    rng = numpy.random.default_rng(0)
    logits = rng.normal(size=(400, 4, 5)).cumsum(1)
    return {
        "hidden": rng.normal(size=(400, 4, 8)).astype("float32"),
        "logits": logits.astype("float32"),
        "target": logits[:, -1].argmax(1),
    }


def own_columns() -> dict[str, numpy.ndarray]:
    """What else a reader may have of it."""
    rng = numpy.random.default_rng(1)
    length = rng.integers(1, 9, 400)
    return {
        "gate_logit": rng.normal(size=(400, 4)).astype("float32"),
        "difficulty": length / 8,
        "group": numpy.arange(400) // 2,
        "split": numpy.repeat(["fit", "val", "test"], [200, 100, 100]),
        "length": length,
    }


def test_the_commands_run_in_the_order_in_which_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAJDIAG_CACHE", raising=False)
    for block in python_blocks()[1:]:
        name = re.match(r"# (\w+\.py)", block)
        assert name is not None
        (tmp_path / name[1]).write_text(block, encoding="utf-8")
    numpy.savez(tmp_path / "mine.npz", **own_arrays())
    printed = {}
    for command in console_commands():
        words = shlex.split(command.partition(" > ")[0])
        assert words[0] == "trajdiag"
        code = main(words[1:])
        out, err = capsys.readouterr()
        assert code == 0, f"{command}: {err}"
        printed[command] = out
    report = Path(printed["trajdiag report mano-fixed-uniform mano-joint-linear"].strip())
    assert (tmp_path / report).name == "report.html" and (tmp_path / report).is_file()
    scores = json.loads(printed["trajdiag score mano-joint-linear --json > scores.json"])["scores"]
    assert {"native", "mlp-ponder", "linear-any-later", "entropy", "oracle"} <= {
        row["readout"] for row in scores
    }


def test_the_python_part_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAJDIAG_CACHE", str(tmp_path / "cache"))
    assert main(["extract", "--model", "mano-fixed-uniform"]) == 0
    exec(python_blocks()[0], {**own_arrays(), **own_columns()})
    assert (tmp_path / "mine-report" / "report.html").is_file()


def test_the_model_of_ones_own_is_the_one_that_is_tested():
    source = (ROOT / "tests" / "models" / "own_model.py").read_text(encoding="utf-8")
    (block,) = (block for block in python_blocks() if block.startswith("# mymodel.py"))
    assert block.removeprefix("# mymodel.py\n") in source


def test_the_commands_for_a_gpu_are_commands():
    (block,) = re.findall(r"```sh\n(.*?)```", ALL, re.DOTALL)
    commands = [line.strip() for line in block.splitlines() if line.strip().startswith("trajdiag")]
    assert len([command for command in commands if " extract " in command]) == 6
    for command in commands:
        app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)


def shipped_table(*, by_difficulty: bool) -> str:
    record = json.loads((ROOT / "docs" / "shipped.json").read_text(encoding="utf-8"))
    loops = max(len(model["test_accuracy"]["overall"]) for model in record.values())
    head = [
        "model",
        *(["difficulty"] if by_difficulty else []),
        *(f"loop {t + 1}" for t in range(loops)),
    ]
    lines = [head, ["---"] * len(head)]
    for name, model in record.items():
        accuracy = model["test_accuracy"]
        levels = {"all": accuracy["overall"]}
        if by_difficulty:
            levels |= accuracy["by_difficulty"]
        for level, by_loop in levels.items():
            cells = [f"{100 * share:.1f}" for share in by_loop]
            shown = f"`{name}`" if level == "all" else ""
            of = [level] if by_difficulty else []
            lines.append([shown, *of, *cells, *[""] * (loops - len(cells))])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def test_the_tables_of_shipped_models_are_the_record():
    assert shipped_table(by_difficulty=False) in README
    assert shipped_table(by_difficulty=True) in TEXTS["docs/models.md"]


def anchors(path: Path) -> set[str]:
    """As the headings of a Markdown file are linked to."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-").lower() for heading in headings}


LINKS = [
    (page, link)
    for page in (*PAGES, "docs/statistics.md", "cache/README.md")
    for link in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_links_lead_to_files_and_headings(page: str, link: str):
    file, _, heading = link.partition("#")
    target = (ROOT / page).parent / file if file else ROOT / page
    assert target.exists()
    assert not heading or heading in anchors(target)


def test_shipped_models_are_small_and_meet_their_bars():
    record = json.loads((ROOT / "docs" / "shipped.json").read_text(encoding="utf-8"))
    shipped = ROOT / "trajdiag" / "models" / "shipped"
    assert {path.name for path in shipped.iterdir() if path.is_dir()} == set(record)
    size = sum(path.stat().st_size for path in shipped.rglob("*.safetensors"))
    assert size < 1.1e6
    for name, model in record.items():
        if "fixed" in name:
            bar = 0.95 if name.startswith("mano") else 0.97
            assert model["test_accuracy"]["overall"][-1] >= bar
