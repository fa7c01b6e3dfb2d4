"""What the journal does not name, or names wrongly, does not exist."""

import dataclasses
import json

import pytest

from tests.store.unfinished import broken_off, contents, enter, make, written_blocks
from trajdiag.errors import StoreError
from trajdiag.store.checksum import crc32c
from trajdiag.store.folder import open_folder
from trajdiag.store.inspection import inspect
from trajdiag.store.journal import COMPLETE, Entry, Journal, read_journal
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.reader import Store

pytestmark = pytest.mark.usefixtures("small_blocks")


def entry(block: int | None = 0, crc: int = 7) -> Entry:
    return Entry(block=block, files={"hidden": [crc]}, content={"hidden": [crc]})


def test_an_entry_is_read_as_it_was_written(tmp_path):
    entries = [entry(None), entry(2), entry(0), entry(1)]
    for each in entries:
        enter(tmp_path, each)
    found = read_journal(LocalFolder(tmp_path), 3)
    assert list(found) == [entry(None), entry(0), entry(1), entry(2)]
    assert not found.broken


def test_compressed_blocks_have_sums_of_files_and_of_what_is_in_them(tmp_path):
    zipped = Entry(block=0, files={"hidden": [1]}, content={"hidden": [2]})
    enter(tmp_path, zipped)
    assert list(read_journal(LocalFolder(tmp_path))) == [zipped]


@pytest.mark.parametrize("at", range(0, 60, 3))
def test_an_entry_with_a_changed_character_is_none(tmp_path, at):
    enter(tmp_path, entry(0))
    enter(tmp_path, entry(1))
    file = tmp_path / "journal" / "0-of-1.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    changed = bytearray(lines[0])
    changed[at % (len(changed) - 1)] ^= 4
    file.write_bytes(bytes(changed) + lines[1])
    found = read_journal(LocalFolder(tmp_path))
    assert list(found) == [entry(1)]
    assert found.broken == {"journal/0-of-1.jsonl": 1}


@pytest.mark.parametrize("lost", [2, 10, 40])
def test_a_torn_line_does_not_take_the_next_along(tmp_path, lost):
    enter(tmp_path, entry(0))
    enter(tmp_path, entry(1))
    file = tmp_path / "journal" / "0-of-1.jsonl"
    file.write_bytes(file.read_bytes()[:-lost])
    enter(tmp_path, entry(2))
    found = read_journal(LocalFolder(tmp_path))
    assert list(found) == [entry(0), entry(2)]
    assert found.broken == {"journal/0-of-1.jsonl": 1}


def test_bytes_that_are_no_text_are_broken_lines(tmp_path):
    enter(tmp_path, entry(0))
    (tmp_path / "journal" / "9-of-10.jsonl").write_bytes(b"\xff\x00\n[[[[\n{}\n3\n")
    found = read_journal(LocalFolder(tmp_path))
    assert list(found) == [entry(0)]
    assert found.broken == {"journal/9-of-10.jsonl": 4}


def test_of_two_entries_of_a_block_the_later_stands_and_the_other_is_remembered(tmp_path):
    for crc in (1, 2, 2):
        enter(tmp_path, entry(0, crc))
    found = read_journal(LocalFolder(tmp_path))
    assert found.blocks == {0: entry(0, 2)}
    assert found.rivals == {0: [entry(0, 1)]}


@pytest.mark.parametrize(
    ("key", "lie"),
    [
        ("crc32c", []),
        ("crc32c", None),
        ("crc32c", {"hidden": 7}),
        ("crc32c", {"hidden": ["7"]}),
        ("crc32c", {"hidden": [-1]}),
        ("content_crc32c", None),
        ("content_crc32c", {}),
        ("block", float("inf")),
        ("block", -1),
        ("block", True),
    ],
)
def test_an_entry_of_other_types_than_an_entry_has_is_none(tmp_path, key, lie):
    values = {**entry(0).values(), key: lie}
    del values["check"]
    text = json.dumps(values, separators=(",", ":"))
    values["check"] = crc32c(text.encode())
    assert Entry.parse(values) is None


def test_a_block_that_the_store_cannot_have_is_refused_with_what_to_do(tmp_path):
    path = broken_off(tmp_path / "x.zarr", after=2)
    enter(path, entry(99), "1-of-2")
    what = r"journal/1-of-2\.jsonl .* names block 99, and the store has 5; remove that file"
    with pytest.raises(StoreError, match=what):
        make(path)
    (path / "journal" / "1-of-2.jsonl").unlink()
    make(path)
    assert contents(path) == contents(make(tmp_path / "whole.zarr").path)


@pytest.mark.parametrize("writer", ["0-of-1", "0-of-2"])
def test_an_entry_that_the_files_do_not_agree_with_gives_way_to_one_that_they_do(tmp_path, writer):
    path = broken_off(tmp_path / "x.zarr", after=3)
    true = read_journal(LocalFolder(path)).blocks[1]
    files = {name: [crc ^ 1 for crc in sums] for name, sums in true.files.items()}
    enter(path, dataclasses.replace(true, files=files, content=files), writer)
    with written_blocks() as blocks:
        make(path)
    assert blocks == [3, 4]
    assert contents(path) == contents(make(tmp_path / "whole.zarr").path)
    assert not inspect(LocalFolder(path)).damage


def test_an_entry_that_no_file_agrees_with_is_written_again_and_does_not_come_back(tmp_path):
    path = broken_off(tmp_path / "x.zarr", after=3)
    true = read_journal(LocalFolder(path)).blocks[1]
    journal = path / "journal" / "0-of-1.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '{"block":1,' not in line))
    files = {name: [crc ^ 1 for crc in sums] for name, sums in true.files.items()}
    # its file is read after that of the shard which writes the block again
    enter(path, dataclasses.replace(true, files=files, content=files), "0-of-2")
    with written_blocks() as blocks:
        store = make(path)
    assert blocks == [1, 3, 4]
    assert store.fingerprint == make(tmp_path / "whole.zarr").fingerprint
    assert not inspect(LocalFolder(path)).damage


def test_the_lost_line_of_the_columns_does_not_keep_a_store_from_completing(tmp_path):
    path = broken_off(tmp_path / "x.zarr", after=4)
    with written_blocks() as blocks, pytest.MonkeyPatch.context() as patch:
        patch.setattr("trajdiag.store.writer.StoreWriter.finish", lambda self: None)
        with pytest.raises(StoreError, match="unfinished"):
            make(path)
    assert blocks == [4]
    journal = path / "journal" / "0-of-1.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"columns"' not in line))
    with written_blocks() as blocks:
        store = make(path)
    assert blocks == []
    assert store.fingerprint == make(tmp_path / "whole.zarr").fingerprint


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_the_entries_of_a_complete_journal_that_was_cut_are_still_believed(tmp_path, share):
    path = make(tmp_path / "x.zarr").path
    file = path / COMPLETE
    content = file.read_bytes()
    whole = read_journal(LocalFolder(path))
    file.write_bytes(content[: int(share * len(content))])
    found = read_journal(LocalFolder(path))
    assert found.broken == {COMPLETE: 1}
    assert found.columns == whole.columns
    assert found.blocks.items() <= whole.blocks.items()


def test_a_complete_store_keeps_its_entries_as_an_attribute_of_a_group(tmp_path):
    store = make(tmp_path / "x.zarr")
    group = json.loads((store.path / COMPLETE).read_text(encoding="utf-8"))
    entries = group["attributes"]["trajdiag_journal"]
    assert [entry["block"] for entry in entries] == ["columns", 0, 1, 2, 3, 4]
    assert list(read_journal(open_folder(store.path))) == [Entry.parse(each) for each in entries]


def test_of_several_shards_all_files_are_read(tmp_path):
    enter(tmp_path, entry(None), "0-of-2")
    enter(tmp_path, entry(0), "0-of-2")
    enter(tmp_path, entry(1), "1-of-2")
    assert list(read_journal(LocalFolder(tmp_path), 2)) == [entry(None), entry(0), entry(1)]


def test_a_store_without_a_journal_has_recorded_nothing(tmp_path):
    assert list(read_journal(LocalFolder(tmp_path))) == list(Journal())
    with pytest.raises(StoreError, match="no store at"):
        Store.open(tmp_path / "nowhere.zarr", unfinished=True)
