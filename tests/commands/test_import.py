"""`trajdiag import`: somebody's own file becomes a store, and what is wrong with it is one line."""

import ctypes
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.store.planted import planted
from trajdiag.cli import main
from trajdiag.store.arrays_import import import_arrays
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAJDIAG_CACHE", raising=False)
    return tmp_path


def arrays(seed=0, **changes):
    a = planted(examples=120, seed=seed)
    given = {"hidden": a.hidden, "logits": a.logits, "target": a.target, "gate_logit": a.gate_logit}
    return {name: np.asarray(values) for name, values in (given | changes).items()}


def run(capsys, *words):
    code = main(["import", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_file_becomes_the_store_that_its_arrays_do(capsys, here):
    a = planted(examples=120)
    columns = {"difficulty": a.difficulty, "group": a.group, "split": a.split}
    np.savez("mine.npz", **arrays(), **columns, **{"covariate/ones": a.group})
    code, out, err = run(capsys, "mine.npz")
    assert (code, out) == (0, "cache/stores/mine.zarr\n")
    expected = from_arrays(
        here / "expected.zarr",
        *(a.hidden, a.logits, a.target, a.gate_logit, a.difficulty, a.group, a.split),
        covariates={"ones": a.group},
    )
    assert Store.open(out.strip()).fingerprint == expected.fingerprint
    assert err.splitlines()[-1] == "next: trajdiag report mine"


@pytest.mark.parametrize("kind", ["safetensors", "folder"])
def test_other_kinds_of_files_give_the_same_store(capsys, kind):
    np.savez("npz.npz", **arrays())
    if kind == "folder":
        Path("folder").mkdir()
        for name, values in arrays().items():
            np.save(f"folder/{name}", values)
    else:
        tensors = {name: torch.from_numpy(values) for name, values in arrays().items()}
        save_file(tensors, "safetensors.safetensors")
    first, second = (
        Store.open(run(capsys, file)[1].strip())
        for file in ("npz.npz", kind if kind == "folder" else f"{kind}.{kind}")
    )
    assert first.fingerprint == second.fingerprint


def test_bfloat16_stays_bfloat16(capsys):
    given = {name: torch.from_numpy(values) for name, values in arrays().items()}
    given["hidden"] = given["hidden"].bfloat16()
    save_file(given, "mine.safetensors")
    store = Store.open(run(capsys, "mine.safetensors")[1].strip())
    assert store.record.store_dtype == "bfloat16"
    assert torch.equal(store.torch("hidden"), given["hidden"])


def test_everything_offline_runs_on_it(capsys):
    np.savez("my rün.npz", **arrays())
    code, out, err = run(capsys, "my rün.npz")
    assert (code, out) == (0, "cache/stores/my rün.zarr\n")
    advice = err.splitlines()[-1].removeprefix("next: ")
    assert advice == "trajdiag report 'my rün'"
    assert main(["fit-gate", "--kind", "linear", "--epochs", "1"]) == 0
    assert main([*shlex.split(advice)[1:], "--bound", "ridge"]) == 0
    assert Path(capsys.readouterr().out.splitlines()[-1]).is_file()


def test_show_says_what_made_it_without_the_place(capsys, here):
    np.savez("mine.npz", states=arrays()["hidden"], **{**arrays(), "hidden": np.zeros(3)})
    words = ["--ignore", "hidden", "--rename", "states", "hidden", "--name", "other"]
    assert run(capsys, here / "mine.npz", *words)[0] == 0
    assert main(["show", "other", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (command,) = shown["commands"]
    assert shown["model"]["source"] == "mine.npz"
    assert str(here) not in json.dumps(shown)
    # the command runs as it is, beside the file
    assert main(shlex.split(command)[1:]) == 0
    assert "is there already, of the same arrays" in capsys.readouterr().err


def test_the_same_file_again_opens_the_store_that_is_there(capsys):
    np.savez("mine.npz", **arrays())
    _, first, _ = run(capsys, "mine.npz")
    before = Path(first.strip(), "zarr.json").stat().st_mtime_ns
    code, second, err = run(capsys, "mine.npz")
    assert (code, second) == (0, first)
    assert "store cache/stores/mine.zarr is there already, of the same arrays" in err
    assert Path(first.strip(), "zarr.json").stat().st_mtime_ns == before


def test_another_file_of_the_same_name_is_refused_unless_it_may_overwrite(capsys):
    np.savez("mine.npz", **arrays())
    run(capsys, "mine.npz")
    np.savez("mine.npz", **arrays(seed=1))
    code, out, err = run(capsys, "mine.npz")
    assert (code, out) == (1, "")
    assert "choose another --name, or --overwrite it" in err
    code, out, _ = run(capsys, "mine.npz", "--overwrite")
    assert code == 0
    assert np.array_equal(Store.open(out.strip()).numpy("hidden"), arrays(seed=1)["hidden"])


def test_names_that_are_not_ours_are_renamed_dots_and_all(capsys):
    given = arrays()
    names = {"hidden": "model.states", "logits": "out-put", "target": "y true", "gate_logit": "g"}
    np.savez("mine.npz", **{names[name]: values for name, values in given.items()})
    renamed = [word for name, old in names.items() for word in ("--rename", old, name)]
    code, out, err = run(capsys, "mine.npz", *renamed)
    assert code == 0, err
    assert np.array_equal(Store.open(out.strip()).numpy("gate_logit"), given["gate_logit"])


def test_a_gates_probabilities_are_kept_as_their_logits(capsys):
    given = arrays()
    given["p"] = 1 / (1 + np.exp(-given.pop("gate_logit")))
    np.savez("mine.npz", **given)
    code, out, err = run(capsys, "mine.npz", "--rename", "p", "gate_probability")
    assert code == 0
    assert "gate_probability is stored as its logit, float32" in err
    found = Store.open(out.strip()).numpy("gate_logit")
    np.testing.assert_allclose(found, arrays()["gate_logit"], rtol=1e-5, atol=1e-5)


def test_a_gates_probabilities_for_logits_are_one_line(capsys):
    given = arrays()
    given["gate"] = 1 / (1 + np.exp(-given.pop("gate_logit")))
    np.savez("mine.npz", **given)
    code, out, err = run(capsys, "mine.npz")
    assert (code, out) == (1, "")
    assert "give it as gate_probability, or, if these are logits" in err.splitlines()[-1]


def test_gate_is_taken_for_the_logit_of_the_hazard(capsys):
    given = arrays()
    given["gate"] = given.pop("gate_logit")
    np.savez("mine.npz", **given)
    store = Store.open(run(capsys, "mine.npz")[1].strip())
    assert np.array_equal(store.numpy("gate_logit"), given["gate"])


@pytest.mark.parametrize(
    ("changes", "words", "messages"),
    [
        ({"attn": np.zeros(2)}, [],
         ["not known: attn", "import takes hidden, logits, target, gate_logit", "--ignore attn"]),
        ({"hidden": None}, [], ["it lacks hidden", "write it again with hidden"]),
        ({"groups": np.arange(120)}, [],
         ["--rename groups group, or leave it out by --ignore groups"]),
        ({"target": None, "the y": np.zeros(120, int)}, [], ["--rename 'the y' target"]),
        ({"hidden": None, "states": np.zeros((120, 3, 4))}, [], ["--rename states hidden,"]),
        ({"target": None, "model.labels": np.zeros(120, int)}, [],
         ["--rename model.labels target,"]),
        ({"gate_logit": None, "Gate": np.zeros((120, 3))}, [], ["--rename Gate gate,"]),
        ({"covariates/length": np.ones(120)}, [],
         ["--rename covariates/length covariate/length"]),
        ({}, ["--seed", "-1"], ["seed must be a whole number, at least 0, got -1"]),
        ({"covariate/zarr.json": np.ones(120)}, [],
         ["a covariate's name must be", "not zarr.json; got 'zarr.json'"]),
        ({"covariate/" + "漢" * 120: np.ones(120)}, [], ["160 bytes in UTF-8"]),
        ({}, ["--name", "漢" * 120], ["a store's name must be", "160 bytes in UTF-8"]),
        ({}, ["--rename", "stats", "hidden"], ["unknown array of mine.npz: 'stats'"]),
        ({}, ["--ignore", "hiden"], ["'hiden', did you mean hidden?"]),
        ({}, ["--rename", "hidden", "stats"], ["unknown array to rename to: 'stats'"]),
        ({"gate": np.zeros((120, 3))}, [], ["both gate_logit and gate are to be gate_logit"]),
        ({}, ["--rename", "gate_logit", "hidden"], ["both hidden and gate_logit are to be hidden"]),
        ({"covariate/": np.zeros(120)}, [], ["not known: covariate/"]),
        ({"target": np.int64(3)}, [], ["target must be [example], class indices, got []"]),
        ({"difficulty": np.float64(3)}, [], ["difficulty [] must have an entry an example"]),
        ({"hidden": np.float32(3)}, [], ["hidden must be [example, loop, d_model], got 0"]),
        ({"class_names": np.array(["a"])}, [], ["class_names must be 5 texts, got 1"]),
        ({}, ["--name", "../x"], ["a store's name must be one folder's name"]),
        ({}, ["--name", ".x"], ["does not begin with a dot"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_line_and_nothing_is_written(
    capsys, here, changes, words, messages
):
    np.savez("mine.npz", **{k: v for k, v in (arrays() | changes).items() if v is not None})
    code, out, err = run(capsys, "mine.npz", *words)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    for message in messages:
        assert message in err
    assert [path.name for path in here.iterdir()] == ["mine.npz"]


def test_a_file_whose_name_is_no_text_is_imported_under_another(capsys):
    np.savez("mine.npz", **arrays())
    file = os.fsdecode(b"mine\xff.npz")
    Path("mine.npz").rename(file)
    assert "a store's name must be" in run(capsys, file)[2]
    code, out, _ = run(capsys, file, "--name", "mine")
    assert code == 0
    assert Store.open(out.strip()).record.model["source"] == "mine?.npz"


def test_what_does_not_fit_in_memory_is_one_line(capsys, monkeypatch):
    np.savez("mine.npz", **arrays())

    def full(*_, **__):
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr("trajdiag.store.arrays_import.from_arrays", full)
    code, _, err = run(capsys, "mine.npz")
    assert code == 1
    assert "mine.npz does not fit in memory: Unable to allocate 9 TiB; what is held whole" in err
    assert "--memory" not in err


def test_nan_is_placed_and_counted(capsys):
    given = arrays()
    given["hidden"][[7, 50, 51], 1, 2] = np.nan
    np.savez("mine.npz", **given)
    code, _, err = run(capsys, "mine.npz")
    assert code == 1
    assert "hidden of example 7 at loop 2 is NaN; so it is in 3 of 120 examples" in err


def test_a_store_without_test_examples_is_shown_rather_than_reported(capsys):
    np.savez("mine.npz", **arrays(split=np.array(["fit", "val"] * 60)))
    code, _, err = run(capsys, "mine.npz")
    assert code == 0
    assert "no example is of split test: score and report take numbers from it" in err
    assert err.splitlines()[-1] == "next: trajdiag show mine"


def test_the_accuracy_of_each_loop_shows_whether_axes_and_targets_are_right(capsys):
    given = arrays()
    np.savez("mine.npz", **given)
    shares = 100 * (given["logits"].argmax(2) == given["target"][:, None]).mean(0)
    expected = " ".join(f"{share:.1f}" for share in shares)
    assert f"accuracy by loop, %: {expected}" in run(capsys, "mine.npz")[2]


def test_a_cache_that_cannot_be_written_is_one_line(capsys):
    np.savez("mine.npz", **arrays())
    Path("cache").touch()
    code, out, err = run(capsys, "mine.npz")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("trajdiag: ") and "cache" in err.splitlines()[-1]


def bound_by_permissions():
    """A root's next program may not read and write what its owner may not."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if prctl is not None:
            prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def test_a_folder_that_may_only_be_read_serves_as_the_source_but_not_as_the_cache(here):
    (here / "locked").mkdir()
    np.savez(here / "locked" / "mine.npz", **arrays())
    (here / "locked").chmod(0o555)

    def imported(cache):
        return subprocess.run(
            [sys.executable, "-m", "trajdiag", "import", "locked/mine.npz", "--cache-dir", cache],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=bound_by_permissions,
        )

    done = imported("locked/cache")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no permission to write locked/cache" in done.stderr.splitlines()[-1]
    done = imported("cache")
    assert (done.returncode, done.stdout) == (0, "cache/stores/mine.zarr\n")
    (here / "locked").chmod(0o755)


def test_a_file_that_may_not_be_read_is_named(here):
    np.savez("mine.npz", **arrays())
    (here / "mine.npz").chmod(0o000)
    done = subprocess.run(
        [sys.executable, "-m", "trajdiag", "import", "mine.npz"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=bound_by_permissions,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "trajdiag: mine.npz cannot be read: Permission denied\n"


def test_in_python_options_are_the_flags(here):
    given = arrays()
    np.savez("mine.npz", states=given.pop("hidden"), **given)
    store = import_arrays(
        here / "mine.npz", rename=[("states", "hidden")], ignore=["gate_logit"], name="other"
    )
    assert (store.name, store.has_gate) == ("other", False)
