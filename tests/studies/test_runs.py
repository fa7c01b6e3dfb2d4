"""The plan of a study, and what counts as a finished run."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from studies import runs
from studies.runs import (
    Run,
    alone,
    cpu_seconds,
    do_run,
    forget_damaged,
    is_done,
    run_all,
    runs_of,
    stores_of,
)
from studies.settings import SCALES, SMALL, TINY, TaskStudy

from trajdiag.errors import ConfigError


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_every_run_has_a_name_of_its_own_and_a_valid_configuration(scale):
    planned = runs_of(scale)
    assert len({run.name for run in planned}) == len(planned)
    assert len(planned) == sum(len(task.settings) * task.seeds for task in scale.tasks)
    for run in planned:
        config = scale.task(run.task).config(run.setting, run.seed, run.name, "cache")
        assert config.checkpoint_name == run.name and config.seed == run.seed


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_gates_and_longer_inputs_belong_to_settings_that_are_trained(scale):
    for task in scale.tasks:
        assert set(task.six) <= set(task.settings)
        assert set(task.longer) <= set(task.settings)


def test_the_paper_scale_has_the_sweeps_of_the_paper():
    mano = SCALES["paper"].task("mano")
    betas = {
        (gate, prior): sorted(
            s.beta
            for s in mano.settings
            if (s.objective, s.gate, s.prior) == ("joint", gate, prior)
        )
        for gate in ("linear", "mlp")
        for prior in ("uniform", "geometric")
    }
    assert betas == {
        ("linear", "uniform"): [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5],
        ("linear", "geometric"): [0.01, 0.05, 0.1],
        ("mlp", "uniform"): [0.001, 0.01, 0.1, 0.2],
        ("mlp", "geometric"): [0.05, 0.1],
    }
    assert mano.seeds == 3 and SCALES["paper"].task("parity").seeds == 5


def test_small_mano_keeps_val_and_test_out_of_training_at_its_hardest():
    import trajdiag

    study: TaskStudy = SMALL.task("mano")
    task = trajdiag.make_task("mano", **study.options["task_options"])
    hardest = task.notes()["overlap"][-1]
    assert hardest["repeats_removed"] and hardest["test_seen"] == 0


@pytest.fixture
def tiny_run() -> Run:
    return runs_of(TINY)[0]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of the first tiny run."""
    root = tmp_path_factory.mktemp("finished")
    run = runs_of(TINY)[0]
    assert not is_done(root, TINY, run)
    do_run(str(root), "tiny", run)
    return root


@pytest.fixture
def root(finished: Path, tmp_path: Path) -> Path:
    """The same, to be damaged. The folder bears the same name, of which an identity may be made."""
    return Path(shutil.copytree(finished, tmp_path / "study"))


def contents(root: Path) -> dict[str, bytes]:
    """Every file of stores, gates and checkpoints; of a gate's config not the command."""
    files = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for kind in ("stores", "gates", "checkpoints")
        for path in sorted((root / kind).rglob("*"))
        if path.is_file()
    }
    for name in [name for name in files if name.startswith("gates/") and name.endswith(".json")]:
        said = json.loads(files[name])
        files[name] = json.dumps({**said, "commands": None, "crc32c": None}).encode()
    return files


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


STORE, LONGER_STORE = (
    "stores/mano-fixed-uniform-s0.zarr",
    "stores/mano-fixed-uniform-s0-longer.zarr",
)
GATE, CHECKPOINT = "gates/mano-fixed-uniform-s0/linear-ponder", "checkpoints/mano-fixed-uniform-s0"


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (f"{STORE}/hidden/c.0.1.0", Path.unlink),
        (f"{STORE}/target/zarr.json", flip),
        (f"{STORE}/zarr.json", flip),
        (f"{LONGER_STORE}/logits/c.0.0.0", Path.unlink),
        (f"{GATE}/config.json", flip),
        (f"{GATE}/config.json", Path.unlink),
        (f"{GATE}/gate.safetensors", flip),
    ],
)
def test_what_opening_sees_is_made_again_to_the_same_bytes(
    root: Path, tiny_run: Run, name: str, damage: Callable[[Path], None]
):
    whole, took = contents(root), cpu_seconds(root, tiny_run)
    damage(root / name)
    assert not is_done(root, TINY, tiny_run)
    do_run(str(root), "tiny", tiny_run)
    assert is_done(root, TINY, tiny_run)
    assert contents(root) == whole
    now = cpu_seconds(root, tiny_run)
    assert all(now[part] >= seconds for part, seconds in took.items())


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        (f"{STORE}/hidden/c.0.1.0", flip, "c.0.1.0 has changed since it was written"),
        (f"{LONGER_STORE}/target/c.0", flip, "target/c.0 has changed since it was written"),
        (f"{CHECKPOINT}/model.safetensors", flip, "checkpoint is not the one that its store"),
        (f"{CHECKPOINT}/model.safetensors", lambda path: path.write_bytes(b"x"), "safetensors"),
        (f"{CHECKPOINT}/config.json", lambda path: path.write_bytes(b"x"), "not valid JSON"),
    ],
)
def test_what_opening_does_not_see_is_found_by_every_byte_and_made_again(
    root: Path, tiny_run: Run, name: str, damage: Callable[[Path], None], told: str
):
    whole, said = contents(root), []
    assert not forget_damaged(root, TINY, [tiny_run], said.append) and not said
    damage(root / name)
    assert is_done(root, TINY, tiny_run)
    assert forget_damaged(root, TINY, [tiny_run], said.append)
    assert len(said) == 1 and told in said[0]
    assert not is_done(root, TINY, tiny_run)
    do_run(str(root), "tiny", tiny_run)
    assert is_done(root, TINY, tiny_run) and contents(root) == whole


def test_a_run_is_done_only_by_the_settings_that_made_it(root: Path, tiny_run: Run):
    assert is_done(root, TINY, tiny_run)
    assert set(cpu_seconds(root, tiny_run)) == {"train", "extract", "gates"}
    made = {path.name for path in (root / "stores").iterdir()}
    assert made >= {f"{name}.zarr" for name in stores_of(TINY.task("mano"), tiny_run)}
    other = dataclasses.replace(TINY, gates=(("linear", "ponder"),))
    assert not is_done(root, other, tiny_run)
    mark = root / "runs" / f"{tiny_run.name}.json"
    whole = mark.read_text("utf-8")
    for damaged in (whole[:20], "{}", "[]"):
        mark.write_text(damaged, encoding="utf-8")
        assert not is_done(root, TINY, tiny_run)
    mark.write_text(whole, encoding="utf-8")
    for lost in (
        *(root / "stores" / f"{name}.zarr" for name in made_by(tiny_run)),
        root / "gates" / tiny_run.name / "linear-ponder",
    ):
        lost.rename(root / "lost")
        assert not is_done(root, TINY, tiny_run)
        (root / "lost").rename(lost)
    assert is_done(root, TINY, tiny_run)


def made_by(run: Run) -> list[str]:
    return stores_of(TINY.task(run.task), run)


def test_one_study_at_a_time_is_at_work_in_a_folder(tmp_path: Path):
    with (
        alone(tmp_path),
        pytest.raises(ConfigError, match="another study is at work"),
        alone(tmp_path),
    ):
        raise AssertionError("two at once")
    with alone(tmp_path):
        pass


def test_finished_runs_are_not_submitted_again(
    finished: Path, tiny_run: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runs, "ProcessPoolExecutor", None)
    assert run_all(finished, TINY, [tiny_run], print) == {}


def test_a_store_that_cannot_be_mended_fails_its_run_in_a_line(root: Path, tiny_run: Run):
    for name in ("zarr.json", "journal/zarr.json"):
        (root / STORE / name).write_bytes(b"x")
    failed = run_all(root, TINY, [tiny_run], lambda line: None)
    assert list(failed) == [tiny_run.name]
    assert "is not a store of this version" in failed[tiny_run.name]


def test_a_mark_with_senseless_times_costs_those_times_alone(root: Path, tiny_run: Run):
    mark = root / "runs" / f"{tiny_run.name}.json"
    content = json.loads(mark.read_text("utf-8"))
    for times in ([], {"train": "long"}, None):
        mark.write_text(json.dumps({**content, "cpu_seconds": times}), encoding="utf-8")
        assert is_done(root, TINY, tiny_run) and cpu_seconds(root, tiny_run) == {}
