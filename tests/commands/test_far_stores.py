"""The command line on a store in S3: what it does with one on this machine."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extraction.processes import begin, end
from tests.store.s3_server import S3Server
from trajdiag.cli import main
from trajdiag.store import schema
from trajdiag.store.folder import open_folder
from trajdiag.store.inspection import inspect
from trajdiag.store.reader import Store

pytestmark = pytest.mark.slow  # half a minute: tests/store/test_remote_folder.py is the quick part

URL = "s3://bucket/stores/x.zarr"
EXTRACT = ["extract", "--model", "parity-joint-linear", "--task-options.fit", "96"]
EXTRACT += ["--task-options.val", "64", "--task-options.test", "96"]
MODEL = ["--model", "small_blocks:Slow", "--task", "small_blocks:Few"]


def contents(location) -> dict[str, bytes]:
    """Every file but those that hold the time at which the store was begun."""
    folder = open_folder(location)
    dated = {"zarr.json", "journal/zarr.json"}
    return {key: folder.read(key) for key in folder.sizes() if key not in dated}


@pytest.fixture
def far(s3, tmp_path, monkeypatch) -> Iterator[str]:
    """The URL of a complete store of two blocks; the cache is the test's folder."""
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 128)
    monkeypatch.setenv("TRAJDIAG_CACHE", str(tmp_path / "far"))
    assert main([*EXTRACT, "--store", URL]) == 0
    return URL


def answers(capsys, store: str, cache: Path) -> dict[str, bytes | str]:
    """What the verbs print and keep, of a store, with a cache of their own."""
    capsys.readouterr()
    few = ["--n-resamples", "20", "--cache-dir", str(cache)]
    assert main(["fit-gate", store, "--kind", "linear", "--cache-dir", str(cache)]) == 0
    found: dict[str, bytes | str] = {}
    for name, words in {
        "scores": ["score", store, "--csv", *few],
        "scores in parts": ["score", store, "--csv", "--memory", "0.000001", *few],
    }.items():
        capsys.readouterr()
        assert main(words) == 0
        found[name] = capsys.readouterr().out
    found["gate"] = (cache / "gates" / "x" / "linear-ponder" / "gate.safetensors").read_bytes()
    return found


def test_a_compressed_store_is_the_same_wherever_it_is_made(s3, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 128)
    options = ["--compress", "zstd", "--cache-dir", str(tmp_path)]
    assert main([*EXTRACT, *options, "--store", URL + "/"]) == 0
    assert capsys.readouterr().out == f"{URL}\n"
    assert main([*EXTRACT, *options, "--name", "x"]) == 0
    local = tmp_path / "stores" / "x.zarr"
    assert Store.open(URL).fingerprint == Store.open(local).fingerprint
    assert contents(URL) == contents(local)
    assert main(["show", URL, "--verify", "--cache-dir", str(tmp_path)]) == 0
    assert "blocks are what was written" in capsys.readouterr().err


def test_verbs_give_the_same_of_a_store_elsewhere_though_little_of_it_is_kept(
    far, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("TRAJDIAG_BLOCKS_GIB", str(2**-12))  # 256 KiB of 600
    of_far = answers(capsys, far, tmp_path / "far")
    blocks = [path for path in (tmp_path / "far" / "blocks").rglob("*") if path.is_file()]
    assert 0 < sum(path.stat().st_size for path in blocks) < 2**19
    local = tmp_path / "local"
    assert main([*EXTRACT, "--name", "x", "--cache-dir", str(local)]) == 0
    assert answers(capsys, "x", local) == of_far


def test_a_second_scoring_brings_no_block(far, s3, capsys):
    assert main(["score", far, "--n-resamples", "20"]) == 0
    with s3.counted() as asked:
        assert main(["score", far, "--n-resamples", "20"]) == 0
    assert [path for _, path in asked if "/c." in path] == []


def test_what_is_lost_is_made_anew_and_what_has_changed_is_named(far, capsys):
    folder, before = open_folder(far), contents(far)
    folder.remove(["hidden/c.1.3.0", "signal/top1/zarr.json"])
    assert main([*EXTRACT, "--store", far]) == 0
    assert contents(far) == before
    folder.write({"hidden/c.1.0.0": bytes(folder.sizes()["hidden/c.1.0.0"])})
    capsys.readouterr()
    assert main(["show", far, "--verify"]) == 1
    out, err = capsys.readouterr()
    assert out == "hidden/c.1.0.0 has changed since it was written\n"
    assert "1 damaged; remove these files and run what made it again" in err
    folder.remove(["hidden/c.1.0.0"])
    assert main([*EXTRACT, "--store", far]) == 0
    assert contents(far) == before


def test_a_cache_elsewhere_is_refused_in_one_line(capsys):
    assert main(["list", "stores", "--cache-dir", "s3://bucket"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("trajdiag: the cache is a folder on this machine, got 's3://bucket'; ")
    assert err.count("\n") == 1


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """The store of a single process, on this machine."""
    folder = tmp_path_factory.mktemp("alone")
    out, _ = end(begin(folder, *MODEL, PAUSE="0"))
    return folder / out.strip()


def require_same(url: str, alone: Path) -> None:
    assert Store.open(url).fingerprint == Store.open(alone).fingerprint
    assert contents(url) == contents(alone)
    found = inspect(open_folder(url))
    assert not found.damage and not found.foreign


def begin_far(s3: S3Server, folder: Path, *words: str, **environment: str):
    return begin(folder, *MODEL, "--store", URL, *words, **s3.environment, **environment)


def test_an_extraction_that_is_killed_goes_on_where_it_was(s3, tmp_path, alone):
    s3.requests.clear()
    with begin_far(s3, tmp_path, PAUSE="0.2") as process:
        while ("PUT", "/bucket/stores/x.zarr/journal/0-of-1.00000000.jsonl") not in s3.requests:
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.1)  # until that is done
        process.send_signal(signal.SIGKILL)
    with s3.counted() as asked:
        out, err = end(begin_far(s3, tmp_path, PAUSE="0"))
    assert out == f"{URL}\n"
    assert "; 1 of 3 blocks are there" in err
    lines = err.splitlines()
    assert all(line.startswith("store ") or " examples, " in line for line in lines), err
    written = [path for method, path in asked if method == "PUT" and "/hidden/c." in path]
    assert len(written) == 2 * 3  # two blocks of three loops
    require_same(URL, alone)


def test_two_shards_at_once_make_the_bytes_of_one_process(s3, tmp_path, alone):
    shards = [begin_far(s3, tmp_path, "--shards", "2", "--shard", str(i)) for i in range(2)]
    assert [end(process)[0] for process in shards] == [f"{URL}\n"] * 2
    require_same(URL, alone)
