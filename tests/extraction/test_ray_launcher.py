"""Extraction on a Ray cluster gives the bytes of one process, whatever becomes of its workers."""

import json
import os
import pickle
import re
import signal
import sys
import textwrap

import pytest

from tests.extraction.processes import MODEL, begin, end, program
from tests.looped import Letters, Spiral
from trajdiag.errors import ConfigError, StoreError
from trajdiag.extraction import ExtractConfig, extract
from trajdiag.extraction.ray_launcher import Crew, crew
from trajdiag.extraction.ray_worker import Order, Worker
from trajdiag.store.reader import Store

PROGRAM = """
import json, os, signal, sys, threading
import ray
from small_blocks import Fatal, Few, Letters, Slow
from trajdiag.errors import TrajdiagError
from trajdiag.extraction import extract

class Noted(Slow):
    "Writes down its process."
    def step(self, state):
        open(f"pid-{os.getpid()}", "w").close()
        return super().step(state)

told = {}

def run(name, model, task, store, **options):
    lines = []
    def progress(line):
        lines.append(line)
        if name == "killed" and line.startswith("5 of 15 blocks"):
            pid = next(int(f[4:]) for f in os.listdir() if f.startswith("pid-"))
            os.kill(pid, signal.SIGKILL)
    try:
        made = extract(model, task, name=store, launcher="ray", progress=progress, **options)
        told[name] = [made.fingerprint, lines]
    except TrajdiagError as error:
        told[name] = [f"{type(error).__name__}: {error}", lines]

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
run("killed", Noted(), Letters(), "two", workers=2)
run("complete", Noted(), Letters(), "two", workers=2)
run("crowded", Slow(), Few(), "few", workers=5)
run("fatal", Fatal(), Few(), "fatal", workers=1)
run("misnamed", "mano-fixed-unifrom", None, "misnamed")
locked = Slow()
locked.lock = threading.Lock()
run("locked", locked, Letters(), "locked")
json.dump(told, open("told.json", "w"))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, list[str]]]:
    """By run: the fingerprint or the error, and the lines of progress."""
    pytest.importorskip("ray")
    folder = tmp_path_factory.mktemp("ray")
    end(program(folder, "-c", PROGRAM))
    return json.loads((folder / "told.json").read_text())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The fingerprints of a single process, by task."""
    folder = tmp_path_factory.mktemp("alone")
    lines = """
        import json
        from small_blocks import Few, Letters, Slow
        from trajdiag.extraction import extract
        model = Slow()
        stores = {task.name: extract(model, task, name=task.name) for task in (Letters(), Few())}
        print(json.dumps({name: store.fingerprint for name, store in stores.items()}))
    """
    out, _ = end(program(folder, "-c", textwrap.dedent(lines), PAUSE="0"))
    return json.loads(out)


def test_a_worker_that_is_killed_half_way_changes_no_byte(told, alone):
    fingerprint, lines = told["killed"]
    assert fingerprint == alone["letters"]
    assert lines[0] == "2 Ray workers of 1 CPU each"
    (lost,) = (line for line in lines if "was lost" in line)
    # where it ran is not known of one that is killed before its first words arrive
    whose = r"the Ray worker of shard [01] of 2( on \S+)? was lost \(.+\); another"
    assert re.match(whose, lost)
    assert any(line.startswith("15 of 15 blocks") for line in lines)


def test_a_complete_store_is_left_as_it_is(told, alone):
    fingerprint, lines = told["complete"]
    assert fingerprint == alone["letters"]
    assert re.fullmatch(r"store \S+two\.zarr is complete", lines[-1])
    assert not any("blocks" in line for line in lines)


def test_more_workers_than_blocks_and_than_room_take_turns(told, alone):
    fingerprint, lines = told["crowded"]
    assert fingerprint == alone["few"]
    assert lines[0] == "5 Ray workers of 1 CPU each"
    assert any("for shard 2 of 3" in line for line in lines)


def test_workers_that_are_lost_at_every_try_end_in_one_line(told):
    error, lines = told["fatal"]
    assert re.match(r"WorkerError: the Ray worker of the whole .*was lost 3 times in a row", error)
    assert "it had said: store " in error
    assert sum("another takes it up" in line for line in lines) == 2


def test_what_a_worker_refuses_is_the_error_of_a_single_process(told):
    assert told["misnamed"][0].startswith(
        "UnknownNameError: unknown model 'mano-fixed-unifrom', did you mean mano-fixed-uniform?"
    )


def test_a_model_that_cannot_be_sent_is_refused_in_one_line(told):
    assert re.fullmatch(
        r"ConfigError: the model and the task cannot be sent .*cannot pickle '_thread.lock' object"
        r"; name them, as package.module:Class",
        told["locked"][0],
    )


def test_ctrl_c_prints_the_line_that_goes_on_and_stdout_holds_the_path_alone(tmp_path, alone):
    pytest.importorskip("ray")
    words = (*MODEL, "--launcher", "ray", "--workers", "2")
    # two CPUs, whatever this machine has
    with begin(tmp_path, *words, RAY_OVERRIDE_RESOURCES='{"CPU": 2}') as first:
        assert first.stderr is not None
        while not re.match(r"\d+ of 15 blocks", first.stderr.readline()) and first.poll() is None:
            pass
        os.killpg(first.pid, signal.SIGINT)
        out, err = first.communicate(timeout=60)
    assert (first.returncode, out) == (130, "")
    assert f"run it again to go on: trajdiag extract {' '.join(words)}" in err
    out, _ = end(begin(tmp_path, *MODEL, PAUSE="0"))
    assert out == "cache/stores/spiral--letters.zarr\n"
    assert Store.open(tmp_path / out.strip()).fingerprint == alone["letters"]


@pytest.mark.parametrize(
    ("machines", "workers", "device", "expected"),
    [
        ([{"CPU": 64, "GPU": 8}, {"CPU": 8}], None, "auto", Crew(workers=8, cpus=1, gpus=1)),
        ([{"CPU": 64, "GPU": 8}], 4, "cuda", Crew(workers=4, cpus=1, gpus=1)),
        ([{"CPU": 64, "GPU": 8}], 4, "cpu", Crew(workers=4, cpus=16, gpus=0)),
        ([{"CPU": 16}, {"CPU": 16}, {}], None, "auto", Crew(workers=2, cpus=16, gpus=0)),
        ([{"CPU": 16}, {"CPU": 4}], 3, "auto", Crew(workers=3, cpus=5, gpus=0)),
        ([{"CPU": 2}], 5, "auto", Crew(workers=5, cpus=1, gpus=0)),
    ],
)
def test_workers_take_a_gpu_each_or_as_many_cpus_as_let_all_run(
    machines, workers, device, expected
):
    assert crew(machines, workers=workers, device=device) == expected


@pytest.mark.parametrize(("device", "said"), [("cuda", "no GPU"), ("auto", "no CPUs")])
def test_a_cluster_without_what_is_needed_is_refused(device, said):
    with pytest.raises(ConfigError, match=said):
        crew([{"memory": 1e9}], workers=None, device=device)


def test_a_worker_that_does_not_see_the_store_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAJDIAG_CACHE", "")  # which a worker sets for its whole process
    given = pickle.dumps((Spiral(), Letters()))
    config = ExtractConfig(model="spiral", task="letters", store=str(tmp_path / "x.zarr"))
    order = Order(config=config, given=given, folder=".", cache_root=str(tmp_path), threads=1)
    with pytest.raises(StoreError, match=r"does not see the store that was begun at .*x\.zarr"):
        Worker(order).make(0, 2, "2026-01-01T00:00:00+00:00", False)
    assert not list(tmp_path.iterdir())


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"trajdiag\[scale\]"):
        extract(Spiral(), Letters(), cache_dir=tmp_path, launcher="ray")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"launcher": "slurm"}, "launcher must be local or ray, got 'slurm'"),
        ({"workers": 2}, "--workers are those of --launcher ray"),
        ({"launcher": "ray", "workers": 0}, "workers must be from 1"),
        ({"launcher": "ray", "shards": 2, "shard": 0}, "is run once, not by shard 0 of 2"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        ExtractConfig(model="mano-fixed-uniform", **options)
