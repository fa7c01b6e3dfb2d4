"""What latency refuses to run, and the one line that it says."""

import shutil

import pytest
import torch

import trajdiag
from tests.language_models import tiny_ouro
from tests.looped import Letters, Spiral
from trajdiag.deployment.saved_readout import ReadoutError
from trajdiag.errors import ConfigError, FingerprintError, StoreError, UnknownNameError
from trajdiag.store import schema

QUICK = {"examples": 12, "singles": 2, "repeats": 1}
FEW = {"fit": 24, "val": 10, "test": 14}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def spiral(home):
    return trajdiag.extract(Spiral(loops=4), Letters(**FEW), store=str(home / "spiral.zarr"))


def measure(store, home, *readouts, **options):
    return trajdiag.measure_latency(
        store, *readouts, cache_dir=str(home), **({"model": Spiral(loops=4)} | QUICK | options)
    )


@pytest.mark.parametrize("name", ["mps", "banana", "meta"])
def test_a_device_that_is_not_here_is_refused(home, name):
    if name == "mps" and torch.backends.mps.is_available():
        pytest.skip("it is here")
    store = trajdiag.extract("mano-joint-linear", task_options=FEW, cache_dir=str(home))
    with pytest.raises(ConfigError, match=rf"device '{name}' cannot be used here; usable: auto, c"):
        measure(store, home, "entropy", 0.3, model=None, device=name)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_run(spiral, tmp_path):
    (tmp_path / "latency").touch()
    said = []
    with pytest.raises(StoreError, match=r"cannot write .*latency/spiral: Not a directory"):
        measure(spiral, tmp_path, "entropy", 0.3, task=Letters(**FEW), progress=said.append)
    assert said == []


def test_a_device_without_float64_is_refused(spiral, home):
    model = Spiral(loops=4)
    model.device = torch.device("mps")
    with pytest.raises(ConfigError, match=r"on cpu or cuda: mps has no float64.*--device cpu"):
        measure(spiral, home, model=model, task=Letters(**FEW))


def test_an_unfinished_store_names_the_command_that_goes_on(home, monkeypatch):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 16)
    trajdiag.extract(
        Spiral(loops=4), Letters(**FEW), store=str(home / "part.zarr"), shards=2, shard=0
    )
    with pytest.raises(StoreError, match=r"part\.zarr is unfinished; run the command that began"):
        measure(home / "part.zarr", home)


def test_without_val_a_threshold_is_asked_for_and_one_that_is_given_is_run(home):
    task = Letters(fit=24, val=0, test=14)
    store = trajdiag.extract(Spiral(loops=4), task, store=str(home / "noval.zarr"))
    for readouts in ([], ["entropy"]):
        with pytest.raises(StoreError, match=r"noval has no val split.*give --readout and --thre"):
            measure(store, home, *readouts, task=task)
    found = measure(store, home, "entropy", 0.9, task=task)
    assert {row.threshold for row in found.latency} == {0.9}


def test_a_split_that_the_store_lacks_is_refused(home):
    task = Letters(fit=0, val=10, test=14)
    store = trajdiag.extract(Spiral(loops=4), task, store=str(home / "nofit.zarr"))
    with pytest.raises(UnknownNameError, match=r"split of store nofit: 'fit'; existing: test, val"):
        measure(store, home, "entropy", 0.5, task=task, split="fit")


def test_a_store_of_another_model_is_refused(spiral, home):
    model = Spiral(loops=4)
    model.record = trajdiag.load_model("mano-fixed-uniform").record
    with pytest.raises(FingerprintError, match=r"is of model spiral with SHA-256 55.* mano-fixed"):
        measure(spiral, home, model=model, task=Letters(**FEW))


@pytest.mark.parametrize(
    ("name", "gate", "words"),
    [
        ("native", False, "native reads the model's own gate, and spiral has none"),
        ("native-released", True, "is the rule of Ouro's released code, which never runs spiral"),
        ("native-continuation", True, "scored as continuations, which task letters has not"),
        ("oracle", True, "Hindsight is no rule"),
        ("native-expected", True, "reads the gate at later loops"),
        ("mlp-ponder", True, "are readouts too: `trajdiag fit-gate"),
        ("entropi", True, "did you mean entropy"),
    ],
)
def test_a_readout_that_the_store_lacks_is_explained(home, name, gate, words):
    model = Spiral(loops=4, gate=gate)
    location = str(home / f"gate-{gate}.zarr")
    store = trajdiag.extract(model, Letters(**FEW), store=location)
    with pytest.raises(UnknownNameError, match="unknown readout to run live") as found:
        measure(store, home, name, 0.5, model=model, task=Letters(**FEW))
    assert words in str(found.value) and "existing: " in str(found.value)
    assert "\n" not in str(found.value)


def test_a_signal_of_more_loops_than_there_are_is_explained(home):
    model = Spiral(loops=2)
    store = trajdiag.extract(model, Letters(**FEW), store=str(home / "two.zarr"))
    with pytest.raises(UnknownNameError, match=r"acceleration is defined from loop 3 on, and .* 2"):
        measure(store, home, "acceleration", 0.5, model=model, task=Letters(**FEW))


def test_a_readout_file_that_is_not_there_says_how_to_make_one(spiral, home):
    with pytest.raises(ReadoutError, match=r"no readout file at .*`trajdiag score STORE"):
        measure(spiral, home, str(home / "none.json"))


def test_a_model_folder_that_has_moved_is_asked_for_and_may_be_anywhere(home, monkeypatch):
    """A relative path with one slash looks like a model of the hub: it is not asked for there."""
    monkeypatch.chdir(home)
    tiny_ouro(home / "runs" / "tiny")
    sizes = {"fit": "10", "val": "10", "test": "10"}
    store = trajdiag.extract(
        "runs/tiny", "arithmetic", task_options=sizes, cache_dir=str(home), name="moved"
    )
    shutil.move(home / "runs" / "tiny", home / "elsewhere")
    with pytest.raises(
        ConfigError, match=r"was the folder runs/tiny, which is not there in .*--mo"
    ):
        measure(store, home, "entropy", 1.0, model=None)
    found = measure(store, home, "entropy", 1.0, model="elsewhere")
    assert found.latency
    with pytest.raises(UnknownNameError, match=r"unknown model 'elsewhere2'; existing: .*mano-"):
        measure(store, home, "entropy", 1.0, model="elsewhere2")
    other = tiny_ouro(home / "other", seed=1)
    with pytest.raises(FingerprintError, match=r"moved is of model tiny with SHA-256"):
        measure(store, home, "entropy", 1.0, model=str(other))
