"""Inspection reads every byte, and names each file that is not what was written."""

import json
import os
from pathlib import Path

import pytest

from tests.store.unfinished import broken_off, contents, flip, make, written_blocks
from trajdiag.errors import StoreError
from trajdiag.store.inspection import Inspection, inspect
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.lock import is_lock
from trajdiag.store.reader import Store
from trajdiag.store.removal import emptied

pytestmark = pytest.mark.usefixtures("small_blocks")

KINDS = [
    "zarr.json",
    "journal/zarr.json",
    "hidden/zarr.json",
    "signal/zarr.json",
    "signal/entropy/zarr.json",
    "hidden/c.0.0.0",
    "logits/c.4.2.0",
    "signal/top1/c.3.0",
    "target/c.0",
    "id/c.2",
]
"""A file of every kind."""


def inspected(path: Path) -> Inspection:
    return inspect(LocalFolder(path))


def damaged(path: Path) -> set[str]:
    return {damage.key for damage in inspected(path).damage}


def test_a_complete_store_is_read_to_the_last_byte(tmp_path):
    path = make(tmp_path / "x.zarr").path
    found = inspected(path)
    assert (found.damage, found.foreign, found.blocks) == ([], [], 5)
    assert found.bytes == sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


@pytest.mark.parametrize("key", KINDS)
def test_a_changed_file_is_named_and_nothing_else_is(tmp_path, key):
    path = make(tmp_path / "x.zarr").path
    for at in (0, -1):
        flip(path / key, at)
        assert damaged(path) == {key}
        flip(path / key, at)


@pytest.mark.parametrize("key", KINDS)
def test_a_lost_file_is_named_and_made_again(tmp_path, key):
    path = make(tmp_path / "x.zarr").path
    whole = contents(path)
    (path / key).unlink()
    assert damaged(path) == {key}
    with written_blocks() as blocks:
        make(path)
    chunk = key.rpartition("/")[2].split(".")
    of_block = chunk[0] == "c" and len(chunk) > 2
    assert blocks == ([int(chunk[1])] if of_block else [])
    assert contents(path) == whole
    assert damaged(path) == set()


def test_every_dimension_name_is_compared(tmp_path):
    path = make(tmp_path / "x.zarr").path
    file = path / "signal" / "entropy" / "zarr.json"
    file.write_text(file.read_text().replace('"example"', '"exbmple"'))
    assert damaged(path) == {"signal/entropy/zarr.json"}


def test_files_of_an_array_whose_metadata_is_lost_are_compared_all_the_same(tmp_path):
    path = make(tmp_path / "x.zarr").path
    (path / "hidden" / "zarr.json").write_text("{")
    flip(path / "hidden" / "c.2.1.0")
    found = inspected(path)
    assert {damage.key for damage in found.damage} == {"hidden/zarr.json", "hidden/c.2.1.0"}
    assert found.foreign == []


def test_of_an_unfinished_store_what_is_recorded_is_compared(tmp_path):
    path = broken_off(tmp_path / "x.zarr", after=3)
    found = inspected(path)
    assert (found.damage, found.foreign, found.blocks) == ([], [], 3)
    flip(path / "hidden" / "c.2.1.0")
    flip(path / "journal" / "record.json", 0)
    assert damaged(path) == {"hidden/c.2.1.0", "journal/record.json"}
    journal = path / "journal" / "0-of-1.jsonl"
    journal.write_bytes(journal.read_bytes()[:-5])
    found = inspected(path)
    assert "journal/0-of-1.jsonl has 1 torn or changed lines" in map(str, found.damage)
    assert found.blocks == 2


def test_what_is_written_and_not_yet_recorded_is_not_foreign(tmp_path):
    path = broken_off(tmp_path / "x.zarr", after=3)
    (path / "hidden" / "c.3.0.0").write_bytes(b"half a block")
    (path / "hidden" / "c.3.1.0.elsewhere-7.partial").write_bytes(b"half a file")
    (path / "thesis.tex").write_text("years of work")
    found = inspected(path)
    assert (found.damage, found.foreign) == ([], ["thesis.tex"])


def test_foreign_files_are_named_and_kept(tmp_path):
    path = make(tmp_path / "x.zarr").path
    mine = path / "hidden" / "notes and ünïcode.txt"
    mine.write_text("do not lose this")
    (path / "my folder").mkdir()
    (path / "my folder" / "c.0").write_text("nor this")
    assert inspected(path).foreign == ["hidden/notes and ünïcode.txt", "my folder/c.0"]
    flip(path / "hidden" / "c.0.0.0")
    make(path)
    assert damaged(path) == set()
    assert mine.read_text() == "do not lose this"
    assert (path / "my folder" / "c.0").read_text() == "nor this"


def test_where_no_store_is_it_says_so(tmp_path):
    with pytest.raises(StoreError, match="no store at"):
        inspected(tmp_path / "nowhere")
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="exists and is not a store of this version"):
        inspected(tmp_path)


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", "../folder"])
def test_a_link_that_leads_out_of_a_store_is_refused(tmp_path, target):
    path = make(tmp_path / "x.zarr").path
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "folder").mkdir()
    (path / "link").symlink_to(target)
    with pytest.raises(StoreError, match=r"link of store .* is a link that leads out of it"):
        inspected(path)
    with pytest.raises(StoreError, match="is a link that leads out of it"):
        make(path)
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_link_that_leads_nowhere_harms_nothing(tmp_path):
    path = make(tmp_path / "x.zarr").path
    (path / "loop").symlink_to("loop")
    (path / "gone").symlink_to("hidden/no such file")
    assert inspected(path).damage == []


def test_what_only_looks_like_the_writing_of_a_store_is_foreign_and_kept(tmp_path):
    path = make(tmp_path / "x.zarr").path
    mine = ["model.partial", "journal/mine.jsonl", "mypred/c.0.0", "mypred/zarr.json"]
    for key in mine:
        (path / key).parent.mkdir(exist_ok=True)
        (path / key).write_text("do not lose this")
    beside = tmp_path / "x.zarr.discarded"
    beside.mkdir()
    assert inspected(path).foreign == sorted(mine)
    with (
        pytest.raises(StoreError, match=r"holds what is not trajdiag's: journal/mine\.jsonl"),
        emptied(LocalFolder(path)),
    ):
        pass
    flip(path / "hidden" / "c.0.0.0")
    make(path)
    assert all((path / key).read_text() == "do not lose this" for key in mine)
    for key in mine:
        (path / key).unlink()
    (path / "mypred").rmdir()
    with emptied(LocalFolder(path)):
        left = [key for key in LocalFolder(path).sizes() if not is_lock(key)]
    assert beside.exists()
    assert not left and not LocalFolder(path).sizes()


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    path = make(tmp_path / "x.zarr").path
    (path / "hidden" / "zarr.json").unlink()
    os.mkfifo(path / "hidden" / "zarr.json")
    with pytest.raises(StoreError, match=r"hidden/zarr\.json of store .* is neither a file nor"):
        inspected(path)


LIES = [
    (("shape", 0), 500),
    (("shape", 0), 10**30),
    (("shape", 0), 0),
    (("shape", 1), 10**9),
    (("shape", 0), float("inf")),
    (("shape",), [300]),
    (("chunk_grid", "configuration", "chunk_shape", 0), 0),
    (("chunk_grid", "configuration", "chunk_shape"), [60, 1]),
    (("attributes", "trajdiag_dtype"), "(2,f4"),
    (("codecs",), [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": []}}]),
]


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize(("field", "lie"), LIES)
def test_metadata_that_lies_is_named_and_made_again(tmp_path, field, lie, complete):
    whole = make(tmp_path / "whole.zarr").path
    path = tmp_path / "x.zarr"
    path = make(path).path if complete else broken_off(path, after=3)
    file = path / "hidden" / "zarr.json"
    metadata = inside = json.loads(file.read_text())
    for name in field[:-1]:
        inside = inside[name]
    inside[field[-1]] = lie
    file.write_bytes(json.dumps(metadata, indent=1, ensure_ascii=False).encode() + b"\n")
    assert "hidden/zarr.json" in damaged(path)
    with pytest.raises(StoreError, match="is damaged"):
        Store.open(path, unfinished=True)
    make(path)
    assert contents(path) == contents(whole)
