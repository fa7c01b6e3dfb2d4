"""What a store must survive, as often as asked: kills at any moment, cut files, flipped bytes."""

import json
import os
import random
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from tests.looped import Letters, Spiral
from tests.store.prepared import BLOCKS, Prepared, computed, told
from trajdiag.extraction import extract
from trajdiag.store.folder import open_folder
from trajdiag.store.inspection import inspect
from trajdiag.store.reader import Store

DATED = ("zarr.json", "journal/zarr.json")
"""Files that hold the time at which the store was begun."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The store of a run that nothing interrupted."""

    path: Path
    contents: dict[str, bytes]
    fingerprint: str
    calls: int
    """Calls that changed the disk while it was made."""
    seconds: float


def made_without_interruption(prepared: Prepared, path: Path) -> Truth:
    prepared.run(path.with_name("first.zarr"))  # what is imported late takes its time once
    begin = time.monotonic()
    assert prepared.run(path) == 0
    return Truth(
        path=path,
        contents=contents(path),
        fingerprint=Store.open(path).fingerprint,
        calls=told(path)["calls"],
        seconds=time.monotonic() - begin,
    )


def contents(path: Path) -> dict[str, bytes]:
    files = {str(p.relative_to(path)): p for p in path.rglob("*") if p.is_file()}
    return {key: file.read_bytes() for key, file in files.items() if key not in DATED}


def recorded(path: Path) -> set[int]:
    """The blocks that the journal names, by the schema: whole lines, or a complete store's list."""
    blocks = set()
    for file in path.glob("journal/*.jsonl"):
        lines = [line for line in file.read_bytes().splitlines(True) if line.endswith(b"\n")]
        blocks |= {_block(line) for line in lines}
    if (path / DATED[1]).exists():
        group = json.loads((path / DATED[1]).read_bytes())
        blocks |= {entry["block"] for entry in group["attributes"]["trajdiag_journal"]}
    return blocks - {"columns", None}


def _block(line: bytes) -> int | str | None:
    try:
        return json.loads(line)["block"]
    except ValueError:
        return None  # half a line that a later one was kept apart from


def require_whole(path: Path, truth: Truth) -> None:
    """The arrays, the fingerprint and the files' names are those of the uninterrupted run, and
    nothing lies beside them."""
    assert contents(path) == truth.contents
    assert Store.open(path).fingerprint == truth.fingerprint
    beside = {p.name for p in path.parent.glob(f"{path.stem}*")}
    assert beside <= {path.name, f"{path.stem}.blocks", f"{path.stem}.told"}
    found = inspect(open_folder(path))
    assert (found.damage, found.foreign, found.blocks) == ([], [], BLOCKS)


def survive_kills(prepared: Prepared, folder: Path, truth: Truth, seed: int, kills: int) -> None:
    """Kill extraction so many times, at calls that change the disk and at moments of the clock;
    after each, run it again or kill that run too."""
    rng, stores = random.Random(seed), 0
    while kills > 0:
        stores += 1
        path = folder / f"killed{stores}.zarr"
        while True:
            before, done = recorded(path), len(computed(path))
            status = _killed(prepared, path, truth, rng)
            kills -= status != 0
            now = computed(path)[done:]
            assert not before & set(now), (seed, stores, kills)
            if status == 0 or kills <= 0 or rng.random() < 0.5:
                break
        before, done = recorded(path), len(computed(path))
        assert prepared.run(path) == 0, (seed, stores, told(path))
        assert set(computed(path)[done:]) == set(range(BLOCKS)) - before, (seed, stores)
        require_whole(path, truth)


def _killed(prepared: Prepared, path: Path, truth: Truth, rng: random.Random) -> int:
    """The status of a run that was killed, unless it was done before."""
    if rng.random() < 0.7:
        return prepared.run(path, kill_at=rng.randrange(2 * truth.calls))
    process = prepared.begin(path)
    time.sleep(rng.uniform(0, truth.seconds))
    os.kill(process, signal.SIGKILL)
    return prepared.end(process)


def survive_killed_shards(
    prepared: Prepared, folder: Path, truth: Truth, seed: int, kills: int
) -> None:
    """Three shards at once, of which some are killed and begun again, until the store is there."""
    rng, stores = random.Random(seed), 0
    while kills > 0:
        stores += 1
        path = folder / f"shards{stores}.zarr"
        left = {0, 1, 2}
        while left:
            deadly = {shard: rng.random() < 0.6 and kills > 0 for shard in sorted(left)}
            running = {
                shard: prepared.begin(
                    path,
                    kill_at=rng.randrange(truth.calls) if deadly[shard] else -1,
                    shards=3,
                    shard=shard,
                )
                for shard in sorted(left)
            }
            for shard, process in running.items():
                status = prepared.end(process)
                assert status in (0, -signal.SIGKILL), (seed, stores, told(path))
                kills -= status != 0
                left -= {shard} if status == 0 else set()
        require_whole(path, truth)
        counts = [computed(path).count(block) for block in range(BLOCKS)]
        assert min(counts) == 1, (seed, stores, counts)


def survive_cuts(prepared: Prepared, folder: Path, truth: Truth, seed: int, cuts: int) -> None:
    """Cut any file of a store, complete or killed in the making, as a loss of power may."""
    rng = random.Random(seed)
    for number in range(cuts):
        path = folder / f"cut{number}.zarr"
        if rng.random() < 0.5:
            shutil.copytree(truth.path, path)
        else:
            while not path.exists() or not any(p.is_file() for p in path.rglob("*")):
                prepared.run(path, kill_at=rng.randrange(2 * truth.calls))
        file = rng.choice(sorted(p for p in path.rglob("*") if p.is_file()))
        before, done = recorded(path), len(computed(path))
        size = file.stat().st_size
        cut = rng.choice([0, size // 2, max(0, size - 1)])
        os.truncate(file, cut)
        what = (seed, number, str(file.relative_to(path)), size, cut)
        assert prepared.run(path) == 0, (*what, told(path))
        try:
            require_whole(path, truth)
        except AssertionError as error:
            raise AssertionError(what) from error
        if not file.name.endswith(".jsonl"):  # which takes the blocks of its lines along
            again = before & set(computed(path)[done:])
            assert again <= _blocks_of(str(file.relative_to(path))), what


def _blocks_of(key: str) -> set[int]:
    """The block whose chunk file this is."""
    array, _, name = key.rpartition("/")
    in_blocks = array.startswith("signal/") or array in ("hidden", "logits", "gate_logit")
    return {int(name.split(".")[1])} if name.startswith("c.") and in_blocks else set()


def survive_flips(folder: Path, truth: Truth, seed: int, flips: int) -> None:
    """Flip a bit of a file of a complete store, or of two, or take a file away: `inspect` names
    just these files, and extraction makes them again, running the model for no other block."""
    rng = random.Random(seed)
    for number in range(flips):
        path = folder / f"flipped{number}.zarr"
        shutil.copytree(truth.path, path)
        files = rng.sample(sorted(p for p in path.rglob("*") if p.is_file()), rng.choice([1, 1, 2]))
        if {str(file.relative_to(path)) for file in files} == set(DATED):
            continue  # both copies of the record: see test_damage.py
        gone = rng.random() < 0.2
        for file in files:
            _change(file, rng, gone=gone)
        keys = {str(file.relative_to(path)) for file in files}
        what = (seed, number, keys, gone)
        named = {damage.key for damage in inspect(open_folder(path)).damage}
        if DATED[1] in keys:  # without its entry, only the array of a file can be named
            named |= {key for key in keys if key.rpartition("/")[0] in named}
        assert keys <= named, (*what, named)
        assert len(keys) > 1 or keys == named, (*what, named)
        model = Spiral()
        extract(model, Letters(fit=24, val=12, test=12), store=str(path))
        assert contents(path) == truth.contents, what
        assert (path / DATED[0]).read_bytes() == (truth.path / DATED[0]).read_bytes(), what
        assert (path / DATED[1]).read_bytes() == (truth.path / DATED[1]).read_bytes(), what
        allowed = set().union(*map(_blocks_of, keys))
        if DATED[1] in keys and len(keys) == 2:
            allowed = set(range(BLOCKS))  # a lost entry is proven by all arrays together
        assert model.steps <= _steps(allowed), (*what, model.steps)
        shutil.rmtree(path)


def _change(file: Path, rng: random.Random, *, gone: bool) -> None:
    if gone:
        file.unlink()
        return
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def _steps(blocks: set[int]) -> int:
    """The most steps that the model makes for these blocks: 3 loops for each of the 5 lengths of a
    block, and one when it is tried, if there is anything to write."""
    return 1 + 15 * len(blocks)
