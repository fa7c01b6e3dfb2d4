"""Extraction: what the model computes is what the store holds, whatever happens on the way."""

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.looped import Letters, Spiral
from trajdiag.errors import ConfigError, NonFiniteError, OutOfSpaceError, UnknownNameError
from trajdiag.extraction import ExtractConfig, extract
from trajdiag.signals.tracker import compute_signals
from trajdiag.store import schema
from trajdiag.store.folder import open_folder
from trajdiag.store.inspection import inspect
from trajdiag.store.reader import Store

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 64)


def contents(store: Store) -> dict[str, bytes]:
    """Every file but those that hold the time at which the store was begun."""
    dated = {store.path / "zarr.json", store.path / "journal" / "zarr.json"}
    files = (p for p in sorted(store.path.rglob("*")) if p.is_file() and p not in dated)
    return {str(p.relative_to(store.path)): p.read_bytes() for p in files}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_store_holds_what_the_model_computes_for_each_example_alone(tmp_path, dtype):
    model, task = Spiral(dtype=dtype), Letters()
    store = extract(model, task, cache_dir=tmp_path, batch_tokens=100)
    assert store.path == tmp_path / "stores" / "spiral--letters.zarr"
    hidden, logits, gate = (store.torch(name) for name in ("hidden", "logits", "gate_logit"))
    assert hidden.dtype == dtype
    row = 0
    for split, examples in task.examples().items():
        for i in range(len(examples)):
            state = model.begin(
                torch.from_numpy(examples.input_ids[i : i + 1, : examples.length[i]])
            )
            for t in range(model.loops):
                state = model.step(state)
                tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
                torch.testing.assert_close(hidden[row, t], model.hidden(state)[0, -1], **tolerance)
                z = model.head(model.head_input(state))[0, -1, [2, 3, 5, 7]]
                torch.testing.assert_close(logits[row, t], z, rtol=0.05, atol=0.1)
                torch.testing.assert_close(
                    gate[row, t], model.gate_logit(state)[0, -1], rtol=0.05, atol=0.1
                )
            assert (store.split[row], store.ids[row]) == (split, examples.id[i])
            assert store.inputs is not None
            assert store.inputs[row] == examples.input[i]
            row += 1
    assert row == len(store)
    assert (
        store.target.tolist()
        == np.concatenate([e.target for e in task.examples().values()]).tolist()
    )
    assert store.record.task["notes"] == {"drawn": 240}
    for name, expected in compute_signals(hidden, logits, store.signal_names).items():
        np.testing.assert_array_equal(store.signal(name), expected)


def test_without_a_gate_and_with_the_whole_vocabulary(tmp_path):
    store = extract(Spiral(gate=False), Letters(class_ids=None), cache_dir=tmp_path)
    assert not store.has_gate
    assert store.classes == 11


def test_more_loops_than_trained_and_no_inputs_on_request(tmp_path):
    store = extract(Spiral(), Letters(), cache_dir=tmp_path, loops=7, inputs=False, name="deep")
    assert (store.name, store.loops, store.inputs) == ("deep", 7, None)


def test_two_runs_give_the_same_bytes(tmp_path):
    first, second = (extract(Spiral(), Letters(), cache_dir=tmp_path / str(i)) for i in (1, 2))
    assert contents(first) == contents(second)
    assert first.fingerprint == second.fingerprint
    assert not inspect(open_folder(first.path)).damage


def test_a_complete_store_is_opened_without_running_the_model(tmp_path):
    first = extract(Spiral(), Letters(), cache_dir=tmp_path)
    model, lines = Spiral(), []
    again = extract(model, Letters(), cache_dir=tmp_path, progress=lines.append)
    assert again.fingerprint == first.fingerprint
    assert model.steps == 0
    assert lines == [f"store {first.path} is complete"]


def test_other_options_list_the_keys_that_differ_and_overwrite_is_asked_for(tmp_path):
    extract(Spiral(), Letters(), cache_dir=tmp_path)
    with pytest.raises(ConfigError, match=r"task\.seed \(0 -> 1\), loops \(3 -> 4\)"):
        extract(Spiral(), Letters(seed=1), cache_dir=tmp_path, loops=4)
    assert extract(Spiral(), Letters(), cache_dir=tmp_path, loops=4, overwrite=True).loops == 4


class Interrupted(Spiral):
    """Ctrl-C in the middle of the third block."""

    def step(self, state):
        if self.steps == 40:
            raise KeyboardInterrupt
        return super().step(state)


def test_ctrl_c_leaves_a_store_that_the_next_run_completes(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        extract(Interrupted(), Letters(), cache_dir=tmp_path / "x")
    lines, model = [], Spiral()
    resumed = extract(model, Letters(), cache_dir=tmp_path / "x", progress=lines.append)
    assert re.search(r"[12] of 4 blocks are there", lines[0])
    whole = Spiral()
    assert contents(resumed) == contents(extract(whole, Letters(), cache_dir=tmp_path / "whole"))
    assert model.steps < whole.steps


CHILD = """
import sys, time
from tests.looped import Letters, Spiral
from trajdiag.extraction import extract
from trajdiag.store import schema
schema.BLOCK_EXAMPLES = 64
class Slow(Spiral):
    def step(self, state):
        time.sleep(0.05)
        return super().step(state)
extract(Slow(), Letters(), cache_dir=sys.argv[1], progress=lambda line: print(line, flush=True))
"""


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_run_killed_at_any_moment_is_resumed_to_the_same_bytes(tmp_path, blocks):
    command = [sys.executable, "-c", CHILD, str(tmp_path / "x")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        written = 0
        while written < blocks and (line := child.stdout.readline()):
            written += " examples, " in line and "/s" in line
        os.kill(child.pid, signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    resumed = extract(Spiral(), Letters(), cache_dir=tmp_path / "x")
    whole = extract(Spiral(), Letters(), cache_dir=tmp_path / "whole")
    assert contents(resumed) == contents(whole)
    assert resumed.fingerprint == whole.fingerprint


def test_a_state_that_is_not_finite_names_example_and_loop(tmp_path):
    model = Spiral()
    model.embedding[7] = float("nan")
    with pytest.raises(
        NonFiniteError, match=r"hidden state of example (fit|val|test)-\d+ at loop 1"
    ):
        extract(model, Letters(), cache_dir=tmp_path)


def test_logits_that_are_not_finite_are_named_too(tmp_path):
    model = Spiral()
    model.unembedding[3, 0] = float("inf")
    with pytest.raises(NonFiniteError, match=r"logits of example \S+ at loop 1"):
        extract(model, Letters(), cache_dir=tmp_path)


def test_too_little_free_disk_is_said_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 99, 1))
    with pytest.raises(OutOfSpaceError, match=r"needs \d+ MiB, 0 MiB are free"):
        extract(Spiral(), Letters(), cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "task", "options", "message"),
    [
        (Spiral(), Letters(test=0), {}, "letters has no test split"),
        (Spiral(), Letters(), {"loops": 1}, "at least 2 loops, got 1"),
        (Spiral(), Letters(class_ids=np.array([3])), {}, "at least 2 classes, got 1"),
        (Spiral(), Letters(vocab_size=12), {}, "needs a vocabulary of 12, model spiral has 11"),
        (
            Spiral(),
            None,
            {},
            "no task of its own and reads no text .*with --task: .*mano",
        ),
        (Spiral(), Letters(), {"name": "a/b"}, "must be one folder's name"),
        (Spiral(), Letters(), {"batch_tokens": 0}, "batch_tokens must be from 1 to .*, got 0"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_nothing_is_written(
    tmp_path, model, task, options, message
):
    with pytest.raises(ConfigError, match=message):
        extract(model, task, cache_dir=tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_a_task_that_forgets_its_examples_is_not_mixed_with_itself(tmp_path):
    class Forgetful(Letters):
        def examples(self):
            return Letters(seed=9).examples()

    with pytest.raises(KeyboardInterrupt):
        extract(Interrupted(), Letters(), cache_dir=tmp_path)
    with pytest.raises(ConfigError, match="begun with other examples: target differs"):
        extract(Spiral(), Forgetful(), cache_dir=tmp_path)


def test_the_recorded_command_repeats_the_run():
    config = ExtractConfig(
        model="my model", task="mano", task_options={"max_difficulty": 5}, inputs=False, loops=6
    )
    assert config.command() == (
        "trajdiag extract --model 'my model' --task mano --task-options.max-difficulty 5 --loops 6 "
        "--no-inputs"
    )


PEAK = """
import resource, sys
import torch
from tests.looped import Letters, Spiral
from trajdiag.extraction import extract
from trajdiag.store import schema
schema.BLOCK_EXAMPLES = 1024
torch.set_num_threads(1)
model = Spiral(d_model=512, vocab_size=11, loops=4)
task = Letters(fit=100, val=100, test=int(sys.argv[2]))
store = extract(model, task, cache_dir=sys.argv[1], memory=0.1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_peak_memory_does_not_grow_with_the_number_of_examples(tmp_path):
    peaks = []
    for examples in (2_000, 20_000):  # 16 and 160 MiB of states
        command = [sys.executable, "-c", PEAK, str(tmp_path / str(examples)), str(examples)]
        peaks.append(
            int(
                subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
            )
        )
    assert peaks[1] - peaks[0] < 40, peaks


def test_another_config_of_the_same_weights_is_another_model(tmp_path):
    def model(theta: float) -> Spiral:
        found = Spiral()
        found.record = dataclasses.replace(found.record, config={"rope_theta": theta})
        return found

    extract(model(1e6), Letters(), cache_dir=tmp_path)
    with pytest.raises(ConfigError, match=r"model\.config\.rope_theta \(1000000\.0 -> 3\.0\)"):
        extract(model(3.0), Letters(), cache_dir=tmp_path)


class Twice(Spiral):
    """A gate of the wrong shape, from a user who forgot to squeeze it."""

    def gate_logit(self, state, at=None):
        return super().gate_logit(state, at)[..., None]


def test_a_model_that_answers_wrongly_leaves_nothing_behind(tmp_path):
    with pytest.raises(ConfigError, match=r"gate_logit\(\) of model spiral must give a floating"):
        extract(Twice(), Letters(), cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_option_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(UnknownNameError, match=r"option of extract 'loop', did you mean lo"):
        extract(Spiral(), Letters(), cache_dir=tmp_path, loop=3)


@pytest.mark.parametrize("lost", ["id", "target", "hidden"])
def test_arrays_that_went_missing_before_a_run_is_resumed_are_made_again(tmp_path, lost):
    with pytest.raises(KeyboardInterrupt):
        extract(Interrupted(), Letters(), cache_dir=tmp_path / "x")
    (path,) = (tmp_path / "x" / "stores").glob("*.zarr")
    shutil.rmtree(path / lost)
    resumed = extract(Spiral(), Letters(), cache_dir=tmp_path / "x")
    whole = extract(Spiral(), Letters(), cache_dir=tmp_path / "whole")
    assert contents(resumed) == contents(whole)


@pytest.mark.parametrize("line", ['{"a": 1}', "[1]", "null", '{"block": 1, "crc32c": 3}'])
def test_a_foreign_line_in_the_journal_ends_what_is_believed(tmp_path, line):
    with pytest.raises(KeyboardInterrupt):
        extract(Interrupted(), Letters(), cache_dir=tmp_path / "x")
    (journal,) = (tmp_path / "x").rglob("journal/*.jsonl")
    journal.write_text(journal.read_text() + line + "\n")
    resumed = extract(Spiral(), Letters(), cache_dir=tmp_path / "x")
    whole = extract(Spiral(), Letters(), cache_dir=tmp_path / "whole")
    assert contents(resumed) == contents(whole)
