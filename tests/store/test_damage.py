"""A complete store that changed since it was written says so, in a line, before its
numbers count."""

import json
import shutil

import numpy as np
import pytest

from tests.looped import Letters, Spiral
from trajdiag.errors import NonFiniteError, StoreError, TrajdiagError
from trajdiag.extraction import extract
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.inspection import inspect
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.reader import Store


@pytest.fixture
def path(tmp_path):
    return again(tmp_path / "mine.zarr").path


def again(path, **options):
    """The same arrays, made or made again."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(40, 3, 4)).astype(np.float32)
    logits = rng.normal(size=(40, 3, 2)).astype(np.float32)
    return from_arrays(path, hidden, logits, np.arange(40) % 2, **options)


def contents(path):
    return {p.relative_to(path): p.read_bytes() for p in path.rglob("*") if p.is_file()}


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


@pytest.mark.parametrize("change", [np.negative, lambda values: values * np.nan])
def test_changed_gate_logits_are_refused(tmp_path, change):
    gate = np.ones((40, 3), np.float32)
    store = again(tmp_path / "gated.zarr", gate_logit=gate)
    chunk = store.path / "gate_logit" / "c.0.0"
    change(np.fromfile(chunk, np.float32)).tofile(chunk)
    with pytest.raises(StoreError, match="gate_logit is not what was written"):
        Store.open(store.path).numpy("gate_logit", rows=np.arange(3))


@pytest.mark.parametrize("array", ["hidden", "logits"])
def test_every_changed_bit_of_a_compressed_chunk_is_seen(tmp_path, array):
    path = extract(Spiral(), Letters(), compress="zstd", cache_dir=tmp_path).path
    chunk = path / array / "c.0.1.0"
    content = chunk.read_bytes()
    for bit in np.random.default_rng(0).integers(0, 8 * len(content), 60).tolist():
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        chunk.write_bytes(changed)
        with pytest.raises(StoreError, match=f"{array}/c.0.1.0 has changed"):
            Store.open(path).numpy(array)
    chunk.write_bytes(content)
    assert np.isfinite(Store.open(path).numpy(array)).all()


def test_a_reader_does_not_mix_a_store_with_one_in_its_place(path):
    store = Store.open(path)
    assert len(store.target) == 40
    shutil.rmtree(path)
    again(path)
    for read in (lambda: store.numpy("hidden"), lambda: store.group):
        with pytest.raises(StoreError, match="made again since it was opened; open it again"):
            read()


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


@pytest.mark.parametrize("change", [-1, 1, -7, None])
def test_a_chunk_file_of_another_size_is_refused_when_the_store_is_opened(path, change):
    file = path / "hidden" / "c.0.1.0"
    size = file.stat().st_size
    content = file.read_bytes()
    file.write_bytes(b"" if change is None else (content + bytes(9))[: size + change])
    with pytest.raises(StoreError, match=rf"hidden/c\.0\.1\.0 has \d+ bytes, not {size}; run"):
        Store.open(path)


def of_version(path, version):
    """Say that a store has another schema version, as a whole store of that version does."""
    for file in (path / "zarr.json", path / "journal" / "zarr.json"):
        group = json.loads(file.read_text())
        group["attributes"]["trajdiag"]["schema"] = version
        file.write_text(json.dumps(group))


@pytest.mark.parametrize(
    ("version", "what"), [(2, "install a newer trajdiag"), (0, "extract again")]
)
def test_a_store_of_another_version_says_what_to_do(path, version, what):
    of_version(path, version)
    before = contents(path)
    message = f"has schema version {version}, this trajdiag reads 1; {what}"
    for act in (
        lambda: Store.open(path),
        lambda: inspect(LocalFolder(path)),
        lambda: again(path),
        lambda: again(path, overwrite=True),
    ):
        with pytest.raises(StoreError, match=message):
            act()
    assert contents(path) == before


def test_a_version_number_that_changed_is_mended_by_its_second_copy(path):
    before = contents(path)
    file = path / "zarr.json"
    file.write_text(file.read_text().replace('"schema": 1', '"schema": 3'))
    assert {damage.key for damage in inspect(LocalFolder(path)).damage} == {"zarr.json"}
    again(path)
    assert contents(path) == before


@pytest.mark.parametrize(
    "content",
    [
        '{"zarr_format": 3, "node_type": "group", "attributes": {}}',
        '{"zarr_format": 3, "node_type": "array", "shape": [3]}',
        '{"zarr_format": 3, "node_type": "group", "attributes": {"trajdiag": 7}}',
        "[]",
        "",
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_zarr_group_of_another_tool_is_not_touched(tmp_path, content, overwrite):
    path = tmp_path / "theirs.zarr"
    (path / "data").mkdir(parents=True)
    (path / "zarr.json").write_text(content)
    (path / "data" / "c.0").write_bytes(b"measured for years")
    before = contents(path)
    with pytest.raises(StoreError, match=r"is not a store of trajdiag: its zarr\.json"):
        Store.open(path)
    with pytest.raises(StoreError, match="exists and is not a store of this version"):
        again(path, overwrite=overwrite)
    assert contents(path) == before


def test_without_both_copies_of_the_record_nothing_is_believed_or_touched(path):
    for file in (path / "zarr.json", path / "journal" / "zarr.json"):
        file.write_bytes(file.read_bytes()[:-9])
    before = contents(path)
    with pytest.raises(StoreError, match="is not a store of this version; choose another --name"):
        again(path)
    assert contents(path) == before


def test_a_file_in_the_place_of_a_folder_is_one_line(path):
    shutil.rmtree(path / "signal")
    (path / "signal").write_text("")
    with pytest.raises(StoreError, match="is damaged: array signal/"):
        Store.open(path)
    named = {damage.key for damage in inspect(LocalFolder(path)).damage}
    assert {"signal/zarr.json", "signal/entropy/zarr.json", "signal/entropy/c.0.0"} <= named
    with pytest.raises(StoreError, match="cannot write"):
        again(path)


def test_a_folder_in_the_place_of_a_file_is_one_line(path):
    (path / "zarr.json").unlink()
    (path / "zarr.json").mkdir()
    with pytest.raises(StoreError, match=r"cannot read zarr\.json of store .*: Is a directory"):
        Store.open(path)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("broken", ["cut", "lost"])
def test_a_compressed_store_without_its_journal_is_proven_by_its_arrays(tmp_path, broken):
    store = extract(Spiral(), Letters(), store=str(tmp_path / "x.zarr"), compress="zstd")
    before = contents(store.path)
    journal = store.path / "journal" / "zarr.json"
    if broken == "cut":
        journal.write_bytes(journal.read_bytes()[:300])
    else:
        journal.unlink()
    model = Spiral()
    extract(model, Letters(), store=str(store.path), compress="zstd")
    assert contents(store.path) == before
    assert model.steps == 1  # tried, before anything is written
