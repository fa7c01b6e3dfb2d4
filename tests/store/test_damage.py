"""A complete store that changed since it was written says so, in a line, before its
numbers count."""

import json

import numpy as np
import pytest

from trajdiag.errors import NonFiniteError, StoreError, TrajdiagError
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(40, 3, 4)).astype(np.float32)
    logits = rng.normal(size=(40, 3, 2)).astype(np.float32)
    return from_arrays(tmp_path / "mine.zarr", hidden, logits, np.arange(40) % 2).path


@pytest.mark.parametrize("array", ["hidden", "logits"])
def test_nan_in_states_or_logits_is_placed(path, array):
    chunk = path / array / "c.0.1.0"
    values = np.fromfile(chunk, np.float32)
    values[0] = np.nan
    values.tofile(chunk)
    store = Store.open(path)
    with pytest.raises(NonFiniteError, match=f"{array} of example 00000000 at loop 2"):
        store.numpy(array)
    if array == "logits":
        with pytest.raises(NonFiniteError):
            store.correct()


@pytest.mark.parametrize("array", ["target", "split", "signal/entropy"])
def test_changed_columns_and_signals_are_refused(path, array):
    chunk = next((path / array).glob("c.*"))
    content = bytearray(chunk.read_bytes())
    content[-1] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(StoreError, match=f"{array} is not what was written"):
        store = Store.open(path)
        store.signal("entropy")
        store.rows("test")
        assert len(store.target)


@pytest.mark.parametrize("value", [None, 3, [], {}, "x"])
@pytest.mark.parametrize("key", ["model", "task", "commands", "checksums", "fingerprint"])
def test_changed_attributes_are_refused(path, key, value):
    file = path / "zarr.json"
    group = json.loads(file.read_text())
    group["attributes"]["trajdiag"][key] = value
    file.write_text(json.dumps(group))
    if value == [] and key == "commands":
        assert Store.open(path).record.commands == []
        return
    with pytest.raises(TrajdiagError) as error:
        Store.open(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shape", [[80, 3, 4], [40, 2, 4], [40, 3], [-1, 3, 4], [40, 3, 0]])
def test_a_shape_that_was_not_written_is_refused(path, shape):
    file = path / "hidden" / "zarr.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "shape": shape}))
    with pytest.raises(StoreError, match="damaged"):
        Store.open(path)


def test_names_do_not_lead_out_of_the_store(tmp_path):
    arrays = np.ones((10, 2, 3), np.float32), np.ones((10, 2, 2), np.float32), np.zeros(10, int)
    for name in ("../../out", "..", "a/b", "zarr.json"[:0], "x" * 300):
        with pytest.raises(TrajdiagError, match="covariate's name"):
            from_arrays(tmp_path / "s.zarr", *arrays, covariates={name: np.ones(10)})
    assert list(tmp_path.iterdir()) == []


def test_arrays_of_any_byte_order_and_stride_are_taken(tmp_path):
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(20, 2, 3)).astype(">f4")[::-1]
    logits = rng.normal(size=(20, 2, 2)).astype(np.float32)[:, ::-1]
    store = from_arrays(tmp_path / "s.zarr", hidden, logits, np.arange(20) % 2)
    np.testing.assert_array_equal(store.numpy("hidden"), hidden)
    np.testing.assert_array_equal(store.numpy("logits"), logits)
