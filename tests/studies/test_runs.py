"""The plan of a study, and what counts as a finished run."""

import dataclasses
import json
from pathlib import Path

import pytest
from studies import runs
from studies.runs import Run, alone, cpu_seconds, do_run, is_done, run_all, runs_of, stores_of
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


def test_a_run_is_done_only_by_the_settings_that_made_it(tmp_path: Path, tiny_run: Run):
    assert not is_done(tmp_path, TINY, tiny_run)
    do_run(str(tmp_path), "tiny", tiny_run)
    assert is_done(tmp_path, TINY, tiny_run)
    assert set(cpu_seconds(tmp_path, tiny_run)) == {"train", "extract", "gates"}
    made = {path.name for path in (tmp_path / "stores").iterdir()}
    assert made >= {f"{name}.zarr" for name in stores_of(TINY.task("mano"), tiny_run)}
    other = dataclasses.replace(TINY, gates=(("linear", "ponder"),))
    assert not is_done(tmp_path, other, tiny_run)
    mark = tmp_path / "runs" / f"{tiny_run.name}.json"
    whole = mark.read_text("utf-8")
    for damaged in (whole[:20], "{}", "[]"):
        mark.write_text(damaged, encoding="utf-8")
        assert not is_done(tmp_path, TINY, tiny_run)
    mark.write_text(whole, encoding="utf-8")
    for lost in (
        *(tmp_path / "stores" / f"{name}.zarr" for name in made_by(tiny_run)),
        tmp_path / "gates" / tiny_run.name / "linear-ponder",
    ):
        lost.rename(tmp_path / "lost")
        assert not is_done(tmp_path, TINY, tiny_run)
        (tmp_path / "lost").rename(lost)
    assert is_done(tmp_path, TINY, tiny_run)


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
    tmp_path: Path, tiny_run: Run, monkeypatch: pytest.MonkeyPatch
):
    mark = tmp_path / "runs" / f"{tiny_run.name}.json"
    mark.parent.mkdir()
    identity = runs._identity(tmp_path, TINY, tiny_run)
    mark.write_text(json.dumps({"identity": identity, "cpu_seconds": {}}))
    for name in made_by(tiny_run):
        (tmp_path / "stores" / f"{name}.zarr").mkdir(parents=True)
    for kind, objective in TINY.gates:
        gate = tmp_path / "gates" / tiny_run.name / f"{kind}-{objective}" / "gate.safetensors"
        gate.parent.mkdir(parents=True)
        gate.touch()
    monkeypatch.setattr(runs, "ProcessPoolExecutor", None)
    assert run_all(tmp_path, TINY, [tiny_run], print) == {}
