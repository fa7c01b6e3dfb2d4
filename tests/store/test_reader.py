"""What was written is what is read, whole, by split, by loop, by row and by batch."""

import resource

import numpy as np
import pytest
import torch
import zarr
from torch.nn.functional import cross_entropy

from tests.store.planted import planted
from trajdiag.errors import UnknownNameError
from trajdiag.signals.registry import SIGNALS
from trajdiag.signals.tracker import compute_signals
from trajdiag.store import schema
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store

pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.fixture(params=[torch.float32, torch.bfloat16, torch.float16], ids=str)
def arrays(request):
    return planted(dtype=request.param)


@pytest.fixture
def store(arrays, tmp_path) -> Store:
    return from_arrays(
        tmp_path / "x.zarr",
        arrays.hidden,
        arrays.logits,
        arrays.target,
        gate_logit=arrays.gate_logit,
        difficulty=arrays.difficulty,
        group=arrays.group,
        split=arrays.split,
        input=[f"é {i}" for i in range(len(arrays.target))],
        covariates={"ones": arrays.difficulty * 2},
        class_names=list("abcde"),
    )


def test_states_come_back_bit_for_bit_in_their_own_dtype(arrays, store):
    found = store.torch("hidden")
    assert found.dtype == arrays.hidden.dtype
    assert torch.equal(found, arrays.hidden)
    np.testing.assert_array_equal(
        store.numpy("hidden").astype(np.float32), arrays.hidden.float().numpy()
    )


def test_a_split_a_loop_and_rows_in_any_order_are_read_alone(arrays, store):
    rows = np.random.default_rng(0).integers(0, len(store), 100)
    test = np.flatnonzero(arrays.split == "test")
    assert torch.equal(store.torch("hidden", split="test"), arrays.hidden[test])
    assert torch.equal(store.torch("hidden", rows=rows, loop=2), arrays.hidden[rows, 1])
    assert torch.equal(store.torch("logits", loop=3), arrays.logits[:, 2])
    assert torch.equal(store.torch("gate_logit", rows=rows), arrays.gate_logit[rows])
    assert torch.equal(
        store.torch("gate_logit", split="val", loop=1), arrays.gate_logit[150:225, 0]
    )
    assert store.numpy("target", rows=rows).tolist() == arrays.target[rows].tolist()


def test_batches_run_through_a_split_once(arrays, store):
    seen, hidden = [], []
    for rows, (states, targets) in store.batches("hidden", "target", size=50, split="test"):
        assert len(rows) <= 50
        assert targets.tolist() == arrays.target[rows].tolist()
        seen.append(rows)
        hidden.append(states)
    assert np.concatenate(seen).tolist() == store.rows("test").tolist()
    expected = arrays.hidden.float().numpy()[store.rows("test")]
    np.testing.assert_array_equal(np.concatenate(hidden).astype(np.float32), expected)


def test_columns_and_shape(arrays, store):
    assert (len(store), store.loops, store.d_model, store.classes) == (300, 3, 8, 5)
    assert store.has_gate
    assert store.splits == ("fit", "val", "test")
    assert store.class_names == ("a", "b", "c", "d", "e")
    assert store.split.tolist() == arrays.split.tolist()
    assert store.group.tolist() == arrays.group.tolist()
    assert store.difficulty.tolist() == arrays.difficulty.tolist()
    assert store.inputs is not None
    assert store.inputs[299] == "é 299"
    assert store.ids[7] == "00000007"
    assert store.covariates["ones"].tolist() == (2 * arrays.difficulty).tolist()


def test_signals_are_those_of_the_arrays(arrays, store):
    assert store.signal_names == tuple(name for name in SIGNALS if name != "acceleration_twice")
    expected_of = compute_signals(arrays.hidden, arrays.logits, store.signal_names)
    for name, expected in expected_of.items():
        np.testing.assert_array_equal(store.signal(name), expected)
        np.testing.assert_array_equal(store.signal(name, "test"), expected[store.rows("test")])


def test_predictions_and_cross_entropy_agree_with_torch(arrays, store):
    test = store.rows("test")
    z, target = arrays.logits[test].double(), arrays.target[test]
    expected = torch.stack([cross_entropy(z[:, t], target, reduction="none") for t in range(3)], 1)
    np.testing.assert_allclose(store.cross_entropy("test"), expected.numpy(), rtol=1e-12)
    assert store.predictions("test").tolist() == z.argmax(2).tolist()
    assert store.correct("test").tolist() == (z.argmax(2) == target[:, None]).tolist()


def test_plain_zarr_opens_every_array(arrays, store):
    group = zarr.open_group(store.path, mode="r")
    found = {name: a for name, a in group.members(max_depth=None) if isinstance(a, zarr.Array)}
    assert set(found) == set(store.arrays)
    assert found["hidden"].metadata.dimension_names == ("example", "loop", "d_model")
    assert found["logits"].metadata.dimension_names == ("example", "loop", "class")
    bits = (
        arrays.hidden.view(torch.uint16) if arrays.hidden.dtype == torch.bfloat16 else arrays.hidden
    )
    np.testing.assert_array_equal(found["hidden"][:], bits.numpy())
    np.testing.assert_array_equal(found["logits"][:], arrays.logits.numpy())
    np.testing.assert_array_equal(found["signal/top1"][:], store.signal("top1"))
    assert found["id"][:].tolist() == store.ids.tolist()
    assert found["input"][:].tolist() == store.inputs.tolist()
    assert found["split"][:].tolist() == store.split.tolist()
    assert group.attrs["trajdiag"]["fingerprint"] == store.fingerprint


def test_an_unknown_array_split_or_signal_lists_what_exists(store):
    with pytest.raises(UnknownNameError, match="gate_logit, group, hidden"):
        store.numpy("states")
    with pytest.raises(UnknownNameError, match="fit, test, val"):
        store.rows("train")
    with pytest.raises(UnknownNameError, match="entropy"):
        store.signal("vibes")


def test_there_is_no_loop_zero(store):
    with pytest.raises(ValueError, match=r"loops are 1\.\.3"):
        store.numpy("hidden", loop=0)


def test_more_chunks_than_open_files_are_allowed_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 8)
    a = planted()
    store = from_arrays(tmp_path / "many.zarr", a.hidden, a.logits, a.target)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (180, limits[1]))
    try:
        assert torch.equal(store.torch("hidden"), a.hidden)
        assert torch.equal(store.torch("logits"), a.logits)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_an_empty_choice_of_rows_is_empty(store):
    assert store.numpy("hidden", rows=np.array([], np.int64)).shape == (0, 3, 8)


def test_only_sees_nothing_but_its_examples(tmp_path):
    a = planted()
    store = from_arrays(tmp_path / "x.zarr", a.hidden, a.logits, a.target, split=a.split)
    rows = np.array([3, 4, 140, 160, 299])
    part = store.only(rows)
    assert len(part) == 5 and part.splits == ("fit", "val", "test")
    assert part.only(np.array([4, 5])).splits == ("fit",)
    np.testing.assert_array_equal(part.rows("fit"), [3, 4, 140])
    np.testing.assert_array_equal(part.numpy("hidden"), store.numpy("hidden")[rows])
    np.testing.assert_array_equal(part.correct(), store.correct()[rows])
    for name in ("entropy", "js"):
        np.testing.assert_array_equal(part.signal(name), store.signal(name)[rows])
        np.testing.assert_array_equal(part.signal(name, "val"), store.signal(name)[[160]])


@pytest.mark.parametrize("rows", [slice(0, 3), 3, [True, False], [[1, 2]], ["a"], [0.5]])
def test_rows_that_are_no_numbers_of_examples_are_refused(store, rows):
    with pytest.raises(ValueError, match=r"rows must be numbers of examples, \[row\], got"):
        store.torch("hidden", rows=rows)
