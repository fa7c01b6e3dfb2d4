"""A file is there whole under its name, or not at all."""

import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trajdiag.errors import StoreError
from trajdiag.store import durable


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def aligned(size):
    """Random bytes that begin on a page, as those that go past the page cache do."""
    values = np.frombuffer(np.random.default_rng(0).bytes(size + 4096), np.uint8).copy()
    first = -values.ctypes.data % 4096
    return values[first : first + size].data


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 3 * 2**20])
def test_what_is_read_is_what_was_written(tmp_path, size):
    files = {
        tmp_path / "plain": os.urandom(size),
        tmp_path / "aligned": aligned(size),
        tmp_path / "numbers": np.arange(size // 8, dtype=np.float64).data,
        tmp_path / "with space é 状": b"x" * size,
    }
    durable.write_files(files)
    assert {path: path.read_bytes() for path in files} == {
        path: bytes(content) for path, content in files.items()
    }
    assert len(names(tmp_path)) == len(files)


def test_more_files_than_may_be_open_at_once(tmp_path):
    durable.write_files({tmp_path / str(i): str(i).encode() for i in range(2000)})
    assert [(tmp_path / str(i)).read_bytes() for i in range(2000)] == [
        str(i).encode() for i in range(2000)
    ]


def test_a_file_is_replaced_by_the_next_of_its_name(tmp_path):
    durable.write_file(tmp_path / "x", b"a long first content")
    durable.write_file(tmp_path / "x", b"second")
    assert (tmp_path / "x").read_bytes() == b"second"
    assert names(tmp_path) == ["x"]


@pytest.fixture
def small_files():
    """No file of this process may grow beyond 64 KiB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("content", [b"x" * 2**17, aligned(2**17)], ids=["plain", "aligned"])
def test_a_write_that_fails_midway_leaves_nothing_and_keeps_what_was_there(
    tmp_path, small_files, content
):
    durable.write_file(tmp_path / "second", b"before")
    with pytest.raises(StoreError, match=r"cannot write .*second: File too large"):
        durable.write_files({tmp_path / "first": b"fits", tmp_path / "second": content})
    assert names(tmp_path) == ["second"]
    assert (tmp_path / "second").read_bytes() == b"before"


MOUNT = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]


def can_mount(folder="/tmp"):
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    mounted = subprocess.run([*MOUNT, f"mount -t tmpfs none {folder}"], capture_output=True)
    return mounted.returncode == 0


FULL = """
import sys
from pathlib import Path
from trajdiag.errors import OutOfSpaceError
from tests.store.test_durable import aligned, durable, names
folder = Path(sys.argv[1])
durable.write_file(folder / "kept", bytes(2**18))
for content in (bytes(2**20), aligned(2**20)):
    try:
        durable.write_files({folder / "first": b"fits", folder / "kept": content})
    except OutOfSpaceError as error:
        print(error)
    assert names(folder) == ["kept"]
    assert (folder / "kept").read_bytes() == bytes(2**18)
"""


@pytest.mark.skipif(not can_mount(), reason="may not mount a small file system")
def test_a_full_disk_is_told_in_a_line_and_leaves_nothing_half_written(tmp_path):
    command = (
        f'mount -t tmpfs -o size=1m none {tmp_path} && exec {sys.executable} -c "$1" {tmp_path}'
    )
    done = subprocess.run([*MOUNT, command, "sh", FULL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert re.match(rf"no space left while writing {tmp_path}/(first|kept); what is", line)


def test_a_folder_that_is_not_there_is_a_line(tmp_path):
    with pytest.raises(StoreError, match=r"cannot write .*: No such file or directory"):
        durable.write_file(tmp_path / "missing" / "x", b"")


def test_whether_a_folder_can_be_written_is_known_without_making_it(tmp_path, monkeypatch):
    durable.require_writable(tmp_path / "new" / "deep")
    assert names(tmp_path) == []
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot write .*file/deep: Not a directory"):
        durable.require_writable(tmp_path / "file" / "deep")
    monkeypatch.chdir(tmp_path)
    durable.require_writable(Path("relative"))
    assert names(tmp_path) == ["file"]


def test_a_file_is_created_once(tmp_path):
    assert durable.create_file(tmp_path / "x", b"first")
    assert not durable.create_file(tmp_path / "x", b"second")
    assert (tmp_path / "x").read_bytes() == b"first"
    assert names(tmp_path) == ["x"]


def test_a_file_that_a_library_writes_takes_its_name_whole_and_with_the_users_mode(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"earlier")
    with durable.replacing(path) as partial:
        partial.write_bytes(b"later")
        partial.chmod(0o600)
        assert path.read_bytes() == b"earlier"
    (tmp_path / "plain").touch()
    assert (path.read_bytes(), path.stat().st_mode) == (
        b"later",
        (tmp_path / "plain").stat().st_mode,
    )
    with pytest.raises(RuntimeError), durable.replacing(path) as partial:
        partial.write_bytes(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"later"
    assert names(tmp_path) == ["plain", "x"]
