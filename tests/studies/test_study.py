"""scripts/study at its tiny scale, from nothing to the page, twice."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def study(cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "study"), "--scale", "tiny"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [*command, "--cache-dir", str(cache), *words],
        capture_output=True,
        text=True,
        env=environment,
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    done = study(folder)
    assert done.returncode == 0, done.stderr
    return folder


def stamps(cache: Path) -> dict[Path, int]:
    """When each file of the study was written, its page apart."""
    root = cache / "study" / "tiny"
    return {
        path: path.stat().st_mtime_ns
        for path in root.rglob("*")
        if path.is_file() and root / "docs" not in path.parents
    }


@pytest.mark.slow
def test_nothing_is_done_twice(cache: Path):
    before = stamps(cache)
    again = study(cache)
    assert again.returncode == 0, again.stderr
    assert stamps(cache) == before


@pytest.mark.slow
def test_a_missing_run_alone_is_done_again_to_the_same_page(cache: Path):
    root = cache / "study" / "tiny"
    page = (root / "docs" / "study.md").read_text("utf-8")
    name = "mano-fixed-geometric-0.3-s1"
    kept = {path: when for path, when in stamps(cache).items() if "-s0" in path.as_posix()}
    (root / "runs" / f"{name}.json").unlink()
    shutil.rmtree(root / "stores" / f"{name}.zarr")
    again = study(cache)
    assert f"{name}: done (1 of 1)" in again.stderr
    assert {path: when for path, when in stamps(cache).items() if path in kept} == kept
    assert (root / "docs" / "study.md").read_text("utf-8") == page


@pytest.mark.slow
def test_what_was_deleted_or_damaged_is_made_again_to_the_same_page(cache: Path):
    root = cache / "study" / "tiny"
    page = (root / "docs" / "study.md").read_text("utf-8").partition("### 5.")[0]
    (root / "reports" / "all" / "results.json").write_text('{"stores": ')
    (root / "runs" / "mano-fixed-uniform-s1.json").write_text("{")
    shutil.rmtree(root / "gates" / "mano-fixed-uniform-s0")
    shutil.rmtree(root / "latency")
    again = study(cache)
    assert again.returncode == 0, again.stderr
    assert "mano-fixed-uniform-s0: entropy live" in again.stderr
    now = (root / "docs" / "study.md").read_text("utf-8")
    assert now.partition("### 5.")[0] == page and "| mano-fixed-uniform-s0, entropy" in now


@pytest.mark.slow
def test_damage_is_mended_on_the_way_and_a_second_time_there_is_none(cache: Path):
    root = cache / "study" / "tiny"
    page = (root / "docs" / "study.md").read_text("utf-8").partition("### 5.")[0]
    store = root / "stores" / "mano-fixed-uniform-s0.zarr"
    signal = store / "signal" / "entropy" / "c.0.0"
    whole = signal.read_bytes()
    signal.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # which opening does not see
    (root / "stores" / "parity-fixed-uniform-s0.zarr" / "hidden" / "c.0.0.0").unlink()
    weights = root / "checkpoints" / "mano-fixed-uniform-s0" / "model.safetensors"
    weights.write_bytes(b"x")
    shutil.rmtree(root / "latency")
    (root / "reports" / "all" / "results.json").write_text("{}")
    again = study(cache)
    assert again.returncode == 0, again.stderr
    assert "not a whole safetensors file" in again.stderr and signal.read_bytes() == whole
    now = (root / "docs" / "study.md").read_text("utf-8")
    assert now.partition("### 5.")[0] == page
    before = stamps(cache)
    assert study(cache).returncode == 0
    assert stamps(cache) == before


@pytest.mark.slow
@pytest.mark.parametrize("results", ["{}", "[]", '{"scores": []}', None])
def test_results_that_are_not_the_report_s_are_made_anew(cache: Path, results: str | None):
    root = cache / "study" / "tiny"
    path, numbers = root / "reports" / "all" / "results.json", root / "docs" / "study.json"
    whole = numbers.read_bytes()
    if results is None:
        path.unlink()
    else:
        path.write_text(results)
    again = study(cache)
    assert again.returncode == 0 and "Traceback" not in again.stderr, again.stderr
    assert "one report over" in again.stderr and numbers.read_bytes() == whole


@pytest.mark.slow
def test_a_store_that_cannot_be_mended_is_told_and_the_page_is_of_the_others(
    cache: Path, tmp_path: Path
):
    copy = Path(shutil.copytree(cache, tmp_path / "copy"))
    store = copy / "study" / "tiny" / "stores" / "mano-fixed-uniform-s1.zarr"
    for name in ("zarr.json", "journal/zarr.json"):
        (store / name).write_bytes(b"x")
    for _ in range(2):
        done = study(copy)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        told = [line for line in done.stderr.splitlines() if line.startswith("FAILED ")]
        assert len(told) == 1 and "mano-fixed-uniform-s1: " in told[0]
    page = (copy / "study" / "tiny" / "docs" / "study.md").read_text("utf-8")
    assert "- mano-fixed-uniform-s1: " in page and "| mano | mod 5" in page


@pytest.mark.slow
def test_an_interrupt_ends_it_and_its_workers_and_a_second_study_is_refused(tmp_path: Path):
    command = [sys.executable, str(ROOT / "scripts" / "study"), "--scale", "tiny"]
    with subprocess.Popen(
        [*command, "--cache-dir", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as begun:
        assert begun.stderr is not None
        begun.stderr.readline()  # a worker is at it
        second = study(tmp_path)
        assert second.returncode == 1 and "another study is at work" in second.stderr
        os.killpg(begun.pid, signal.SIGINT)
        assert begun.wait(timeout=20) == 130
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(begun.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.2)
    raise AssertionError("a worker has outlived the study")


@pytest.mark.slow
def test_a_run_that_fails_is_told_in_a_line_and_the_others_are_reported(cache: Path):
    root = cache / "study" / "tiny"
    name = "parity-fixed-uniform-s0"
    (root / "runs" / f"{name}.json").unlink()
    checkpoint = root / "checkpoints" / name / "config.json"
    whole = checkpoint.read_text("utf-8")
    checkpoint.write_text(whole.replace('"steps": 12', '"steps": 13'), encoding="utf-8")
    done = study(cache, "--docs", str(cache / "failed"))
    checkpoint.write_text(whole, encoding="utf-8")
    assert done.returncode == 1
    told = [line for line in done.stderr.splitlines() if line.startswith(f"FAILED {name}: ")]
    assert len(told) == 1 and "another configuration" in told[0]
    page = (cache / "failed" / "study.md").read_text("utf-8")
    assert f"- {name}: " in page and "| mano | mod 5" in page
