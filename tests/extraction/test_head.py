"""--logits none: the vocabulary's logits are computed again from the states and the kept head."""

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import load

from tests.extraction.test_documents import Notes
from tests.extraction.test_questions import Quiz
from tests.language_models import VOCABULARY, folder_of, loaded
from tests.looped import Letters, Spiral
from tests.models.own_model import TinyLooped
from trajdiag.cli import main
from trajdiag.errors import ConfigError, StoreError
from trajdiag.extraction import extract
from trajdiag.store.folder import open_folder
from trajdiag.store.head import TOLERANCE, GoldenBatch, SavedHead, save_head
from trajdiag.store.reader import Store

PLAIN = ("ouro", "hrm_text")
"""The families whose head reads the stored state alone."""
STATISTICS = ("log_sum_exp", "entropy", "target_log_probability")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {family: folder_of(family, tmp_path_factory.mktemp(family) / "tiny") for family in PLAIN}


def assert_logits_agree(found: np.ndarray, expected: np.ndarray) -> None:
    allowed = TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("family", PLAIN)
@pytest.mark.parametrize("task", [Notes(), Quiz(style="letter", choices=tuple("ABCD")), Quiz()])
def test_recomputed_logits_are_those_that_would_have_been_kept(
    folders, tmp_path, family, dtype, task
):
    model = loaded(folders[family], dtype)
    full = extract(model, task, cache_dir=tmp_path / "full", logits="full")
    none = extract(model, task, cache_dir=tmp_path / "none", logits="none")
    assert "vocabulary/logits" not in none.arrays
    expected = full.vocabulary_logits()
    assert expected.shape == (len(full), full.loops, VOCABULARY)
    found = none.vocabulary_logits()
    assert found.dtype == np.float32
    assert_logits_agree(found, expected)
    some = np.array([5, 0, 3])
    assert_logits_agree(none.vocabulary_logits(rows=some, loop=2), expected[some, 1])
    assert_logits_agree(none.vocabulary_logits(split="val"), full.vocabulary_logits(split="val"))


@pytest.mark.parametrize("task", [Notes(), Quiz(style="letter", choices=tuple("ABCD")), Quiz()])
def test_statistics_do_not_depend_on_what_else_is_kept(folders, tmp_path, task):
    model = loaded(folders["ouro"])
    stores = {
        logits: extract(model, task, cache_dir=tmp_path / logits, logits=logits)
        for logits in ("full", "topk:5", "topk:1", "none")
    }
    full = stores.pop("full")
    for store in stores.values():
        for name in STATISTICS:
            kept = store.numpy(f"vocabulary/{name}")
            np.testing.assert_array_equal(kept, full.numpy(f"vocabulary/{name}"))
        for name in ("top_logits", "top_ids"):
            kept = store.numpy(f"vocabulary/{name}")[..., :2]
            np.testing.assert_array_equal(kept, full.numpy(f"vocabulary/{name}"))
        np.testing.assert_array_equal(store.predictions(), full.predictions())
        np.testing.assert_allclose(store.cross_entropy(), full.cross_entropy(), atol=1e-5)
        assert store.signal_names == full.signal_names
        for name in full.signal_names:
            np.testing.assert_array_equal(store.signal(name), full.signal(name))


class Tied(Spiral):
    """All tokens but 2 and 5 have the logit 0 everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.unembedding[[0, 1, 3, 4, 6, 7, 8, 9, 10]] = 0.0

    def saved_head(self) -> SavedHead:
        return SavedHead(weight=self.unembedding)


@pytest.mark.parametrize("logits", ["full", "none"])
def test_the_two_largest_are_the_lower_ids_among_equals(tmp_path, logits):
    store = extract(Tied(), Letters(class_ids=None), cache_dir=tmp_path, logits=logits)
    z = store.vocabulary_logits()
    order = np.argsort(-z, axis=2, kind="stable")[..., :2]
    largest = np.take_along_axis(z, order, 2)
    assert (largest[..., 0] == largest[..., 1]).any()
    np.testing.assert_array_equal(store.numpy("vocabulary/top_ids"), order)
    np.testing.assert_allclose(store.numpy("vocabulary/top_logits"), largest, atol=1e-5)


def test_where_the_classes_are_the_vocabulary_no_logits_are_kept_but_all_signals(tmp_path):
    full = extract(Tied(), Letters(class_ids=None), cache_dir=tmp_path / "f", logits="full")
    none = extract(Tied(), Letters(class_ids=None), cache_dir=tmp_path / "n", logits="none")
    assert "logits" in full.arrays
    assert "logits" not in none.arrays
    assert none.classes == 11
    assert none.kept_signals == full.signal_names
    assert_logits_agree(none.vocabulary_logits(), full.numpy("logits"))


def test_the_logits_of_chosen_classes_are_kept_beside_the_head(tmp_path):
    store = extract(Tied(), Letters(), cache_dir=tmp_path, logits="none")
    assert store.classes == 4
    found = store.vocabulary_logits()[..., [2, 3, 5, 7]]
    np.testing.assert_allclose(found, store.numpy("logits"), atol=1e-5)


@pytest.mark.parametrize("task", [Notes(), Quiz()])
def test_the_largest_alone_do_not_give_all(folders, tmp_path, task):
    model = loaded(folders["ouro"])
    store = extract(model, task, cache_dir=tmp_path, logits="topk:2")
    with pytest.raises(StoreError, match="keeps only the 2 largest of the vocabulary's logits"):
        store.vocabulary_logits()


def test_a_store_of_classes_alone_has_nothing_of_the_vocabulary(tmp_path):
    store = extract(Spiral(), Letters(), cache_dir=tmp_path)
    with pytest.raises(StoreError, match="keeps none of the vocabulary's logits; extract with"):
        store.vocabulary_logits()


@pytest.fixture
def kept(folders, tmp_path):
    return extract(loaded(folders["ouro"]), Notes(), cache_dir=tmp_path, logits="none")


@pytest.mark.parametrize("tampered", ["weight", "golden_states"])
def test_a_tampered_head_is_refused_when_it_is_first_used(kept, tampered):
    file = kept.path / "head.safetensors"
    tensors = load(file.read_bytes())
    tensors[tampered][1] += 0.01
    head = SavedHead(weight=tensors["weight"])
    golden = GoldenBatch(states=tensors["golden_states"], logits=tensors["golden_logits"])
    file.write_bytes(save_head(head, golden, kept.record.model["sha256"]))
    store = Store.open(kept.path)
    assert store.predictions().shape == (len(store), 4)
    with pytest.raises(StoreError, match="does not give the model's logits: the logit of token"):
        store.vocabulary_logits(loop=1)


def test_verify_compares_the_golden_batch(kept, capsys):
    assert main(["show", str(kept.path), "--verify"]) == 0
    file = kept.path / "head.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert main(["show", str(kept.path), "--verify"]) == 1
    said = capsys.readouterr()
    assert "head.safetensors has changed since it was written" in said.out
    assert "1 damaged; run what made it again" in said.err


def test_a_head_that_is_gone_is_named(kept):
    (kept.path / "head.safetensors").unlink()
    with pytest.raises(StoreError, match=r"has no head.safetensors"):
        Store.open(kept.path).vocabulary_logits(loop=1)


@pytest.mark.parametrize("name", ["head.safetensors", "target/tokens.json"])
@pytest.mark.parametrize("place", ["memory://bucket/x.zarr", "x.zarr"])
def test_the_same_extraction_brings_back_a_whole_file_that_is_gone(folders, tmp_path, place, name):
    location = place if "://" in place else str(tmp_path / place)
    model, folder = loaded(folders["ouro"]), open_folder(location)
    options = {"store": location, "cache_dir": tmp_path, "logits": "none"}
    made = extract(model, Notes(), **options)
    assert name in made.record.attachments
    before = {key: folder.read(key) for key in folder.sizes()}
    folder.remove([name])
    said: list[str] = []
    again = extract(model, Notes(), progress=said.append, **options)
    assert any(f"{name} is missing" in line for line in said)
    assert {key: folder.read(key) for key in folder.sizes()} == before
    assert again.fingerprint == made.fingerprint
    assert again.class_texts == made.class_texts
    np.testing.assert_array_equal(
        again.vocabulary_logits(loop=1, rows=np.array([0])),
        made.vocabulary_logits(loop=1, rows=np.array([0])),
    )
    said.clear()
    extract(model, Notes(), progress=said.append, **options)
    assert said == [f"store {location} is complete"]
    folder.remove(list(folder.sizes()))


def test_the_golden_states_are_the_models_own_of_every_part_of_the_loop(kept, folders):
    tensors = load((kept.path / "head.safetensors").read_bytes())
    states, logits = tensors["golden_states"], tensors["golden_logits"]
    assert states.shape == (8, kept.d_model)
    assert logits.shape == (8, VOCABULARY)
    hidden = kept.torch("hidden").flatten(0, 1)
    nearest = (states[:, None] - hidden).abs().amax(2).min(1)
    assert float(nearest.values.max()) < 1e-5
    assert set((nearest.indices % kept.loops).tolist()) == set(range(kept.loops))


@pytest.mark.parametrize("family", ["huginn_raven", "dory", "inkling2_loop_text"])
def test_families_with_layers_after_the_loop_are_refused(tmp_path, family):
    model = loaded(folder_of(family, tmp_path / "tiny"))
    with pytest.raises(
        ConfigError,
        match=rf"head of model tiny \({family}\) reads what the layers after the loop make of it; "
        "use --logits topk:64",
    ):
        extract(model, Quiz(), cache_dir=tmp_path, logits="none")


def test_the_mean_state_is_refused(folders, tmp_path):
    with pytest.raises(ConfigError, match=r"which --pool mean does not keep; use --logits topk:64"):
        extract(loaded(folders["ouro"]), Quiz(), cache_dir=tmp_path, logits="none", pool="mean")


@pytest.mark.parametrize("model", [TinyLooped(), Spiral()], ids=["heir", "duck"])
def test_a_model_of_ones_own_without_a_saved_head_is_refused(tmp_path, model):
    with pytest.raises(ConfigError, match=r"model \w+ gives none; write saved_head\(\), or use --"):
        extract(model, Letters(), cache_dir=tmp_path, logits="none")


class Headed(TinyLooped):
    def saved_head(self):
        return SavedHead(weight=self.unembedding.weight, bias=self.unembedding.bias)


def test_a_model_of_ones_own_may_give_its_head(tmp_path):
    full = extract(Headed(), Letters(), cache_dir=tmp_path / "full", logits="full")
    none = extract(Headed(), Letters(), cache_dir=tmp_path / "none", logits="none")
    assert_logits_agree(none.vocabulary_logits(), full.numpy("vocabulary/logits"))


def test_a_saved_head_that_is_not_the_models_is_refused_before_anything_is_written(tmp_path):
    class Biasless(TinyLooped):
        def saved_head(self):
            return SavedHead(weight=self.unembedding.weight)

    with pytest.raises(ConfigError, match=r"saved_head\(\) of model Biasless is not its head: the"):
        extract(Biasless(), Letters(), cache_dir=tmp_path, logits="none")
    assert not list(tmp_path.rglob("*.zarr"))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (torch.zeros(64, 32), r"must give a SavedHead or None, not Tensor"),
        (SavedHead(weight=torch.zeros(64, 31)), r"a weight that is a .* \[64, 32\], not float32"),
        (SavedHead(weight=torch.zeros(64, 32).long()), r"not int64 \[64, 32\]"),
        (SavedHead(weight=torch.zeros(64, 32), bias=torch.zeros(1)), r"a bias .* \[64\], not"),
        (SavedHead(weight=torch.zeros(64, 32), softcap=0.0), r"a softcap above 0, or None, not 0"),
    ],
)
def test_a_saved_head_of_another_shape_is_refused(tmp_path, answer, message):
    class Wrong(TinyLooped):
        def saved_head(self):
            return answer

    with pytest.raises(ConfigError, match=message):
        extract(Wrong(), Letters(), cache_dir=tmp_path, logits="none")


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        ("none", "logits: none kept; recomputed from head.safetensors"),
        ("topk:7", "logits: 7 largest kept"),
        ("full", "logits: all kept"),
    ],
)
@pytest.mark.parametrize("task", [Notes(), Quiz()])
def test_show_says_what_is_kept_of_the_vocabulary(folders, tmp_path, capsys, task, logits, said):
    store = extract(loaded(folders["ouro"]), task, cache_dir=tmp_path, logits=logits)
    assert main(["show", str(store.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[1].strip() for line in lines if "vocabulary" in line] == [said]


def test_the_size_that_is_said_includes_the_head(folders, tmp_path):
    model, lines = loaded(folders["ouro"]), []
    extract(model, Quiz(), cache_dir=tmp_path, logits="none", progress=lines.append)
    assert lines[0] == "logits of the vocabulary: none, recomputed from head.safetensors"
    (line,) = (line for line in lines if "GiB are free" in line)
    size = float(line.split(" MiB;")[0].split()[-1].replace(",", ""))
    folder = next(tmp_path.rglob("*.zarr"))
    arrays = [path for path in folder.rglob("c.*") if path.parent.name not in COLUMNS]
    expected = sum(path.stat().st_size for path in [*arrays, folder / "head.safetensors"])
    assert size == pytest.approx(expected / 2**20, abs=0.05)


COLUMNS = ("target", "difficulty", "group", "split", "id", "input")


def test_a_run_that_was_interrupted_finishes_with_the_same_head(folders, tmp_path, monkeypatch):
    from trajdiag.store import schema

    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 16)
    model = loaded(folders["ouro"])
    whole = extract(model, Notes(), cache_dir=tmp_path / "whole", logits="none")

    class Stopped(Exception):
        pass

    def stop(line: str) -> None:
        if " examples, " in line and "/s" in line:
            raise Stopped

    with pytest.raises(Stopped):
        extract(model, Notes(), cache_dir=tmp_path / "again", logits="none", progress=stop)
    again = extract(model, Notes(), cache_dir=tmp_path / "again", logits="none")
    assert again.fingerprint == whole.fingerprint
    heads = [(store.path / "head.safetensors").read_bytes() for store in (whole, again)]
    assert heads[0] == heads[1]
    assert dataclasses.asdict(again.record)["config"]["logits"] == "none"
