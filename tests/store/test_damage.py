"""A store that is not whole is refused in one line; a whole one has one fingerprint."""

import json

import pytest

from tests.store.planted import planted
from trajdiag.errors import StoreError
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store


def make(path, **options):
    a = planted(**options)
    return from_arrays(path, a.hidden, a.logits, a.target, gate_logit=a.gate_logit, split=a.split)


@pytest.fixture
def store(tmp_path) -> Store:
    return make(tmp_path / "x.zarr")


def edit(store, **attributes):
    file = store.path / "zarr.json"
    group = json.loads(file.read_text())
    group["attributes"]["trajdiag"].update(attributes)
    file.write_text(json.dumps(group))


def refused(path, match):
    with pytest.raises(StoreError, match=match) as error:
        Store.open(path)
    assert "\n" not in str(error.value)


def test_a_missing_store_is_refused(tmp_path):
    refused(tmp_path / "none.zarr", "no store at")


def test_a_foreign_folder_is_refused(tmp_path):
    (tmp_path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    refused(tmp_path, "not a store of trajdiag")


def test_an_unfinished_store_is_refused(store):
    edit(store, complete=False)
    refused(store.path, "unfinished")


def test_a_store_of_a_later_schema_is_refused(store):
    edit(store, schema=99)
    refused(store.path, "schema version 99, this trajdiag reads 1")


def test_a_truncated_chunk_is_refused(store):
    file = store.path / "logits" / "c.0.1.0"
    file.write_bytes(file.read_bytes()[:-4])
    refused(store.path, r"logits/c\.0\.1\.0 has \d+ bytes, not \d+")


def test_a_missing_chunk_is_refused(store):
    (store.path / "signal" / "entropy" / "c.0.0").unlink()
    refused(store.path, r"signal/entropy/c\.0\.0 is missing")


def test_a_missing_array_is_refused(store):
    (store.path / "target" / "zarr.json").unlink()
    refused(store.path, "array target")


def test_compression_by_another_tool_is_refused(store):
    file = store.path / "hidden" / "zarr.json"
    metadata = json.loads(file.read_text())
    metadata["codecs"].append({"name": "zstd", "configuration": {}})
    file.write_text(json.dumps(metadata))
    refused(store.path, "array hidden: codecs")


def test_the_fingerprint_is_that_of_the_bytes(store):
    assert store.compute_fingerprint() == store.fingerprint
    file = store.path / "hidden" / "c.0.0.0"
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    assert Store.open(store.path).compute_fingerprint() != store.fingerprint


@pytest.mark.parametrize("column", ["split", "id", "target", "group", "difficulty"])
def test_the_fingerprint_covers_the_columns(store, column):
    file = store.path / column / "c.0"
    content = bytearray(file.read_bytes())
    content[8] ^= 1
    file.write_bytes(content)
    assert Store.open(store.path).compute_fingerprint() != store.fingerprint


def test_the_fingerprint_depends_on_content_and_not_on_time_or_place(store, tmp_path):
    assert make(tmp_path / "elsewhere" / "y.zarr").fingerprint == store.fingerprint
    assert make(tmp_path / "z.zarr", seed=1).fingerprint != store.fingerprint


def test_reading_leaves_every_file_as_it_was(store):
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in store.path.rglob("*")}
    store.numpy("hidden")
    store.cross_entropy("test")
    store.compute_fingerprint()
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in store.path.rglob("*")} == before
