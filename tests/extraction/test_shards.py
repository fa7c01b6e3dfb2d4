"""Several processes make one store, each the blocks of its shard, however they are told which."""

from pathlib import Path

import pytest

from tests.extraction.processes import MODEL, begin, end
from trajdiag.cli import main
from trajdiag.errors import ConfigError
from trajdiag.extraction.scheduler import scheduled_shard
from trajdiag.store.folder import open_folder
from trajdiag.store.inspection import inspect
from trajdiag.store.reader import Store
from trajdiag.store.shard import WHOLE, Shard


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The store of a single process."""
    folder = tmp_path_factory.mktemp("alone")
    out, _ = end(begin(folder, *MODEL, PAUSE="0"))
    return Store.open(folder / out.strip())


def bytes_of(store: Store) -> dict[str, bytes]:
    """Every file but those that hold the time at which the store was begun."""
    root = Path(store.location)
    dated = {root / "zarr.json", root / "journal" / "zarr.json"}
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path not in dated
    }


def require_same(store: Store, alone: Store) -> None:
    assert store.fingerprint == alone.fingerprint
    assert bytes_of(store) == bytes_of(alone)
    found = inspect(open_folder(store.location))
    assert not found.damage and not found.foreign


TWO = {
    "torchrun": [{"RANK": str(index), "WORLD_SIZE": "2"} for index in range(2)],
    "a Slurm array": [
        {
            "SLURM_ARRAY_TASK_ID": str(index + 3),
            "SLURM_ARRAY_TASK_MIN": "3",
            "SLURM_ARRAY_TASK_COUNT": "2",
        }
        for index in range(2)
    ],
}


@pytest.mark.parametrize("way", TWO)
def test_two_processes_at_once_make_the_bytes_of_one(tmp_path, alone, way):
    both = [begin(tmp_path, *MODEL, **environment) for environment in TWO[way]]
    printed = [end(process) for process in both]
    (path,) = {out for out, _ in printed}
    assert path == "cache/stores/spiral--letters.zarr\n"
    require_same(Store.open(tmp_path / path.strip()), alone)
    for index, (_, err) in enumerate(printed):
        assert f"are for shard {index} of 2" in err


def test_a_shard_that_ends_first_says_what_is_missing_and_show_does(tmp_path, alone, capsys):
    _, err = end(begin(tmp_path, *MODEL, "--shards", "2", "--shard", "1", PAUSE="0"))
    assert "shard 1 of 2 is there; 8 of 15 blocks are missing" in err
    assert main(["show", str(tmp_path / "cache/stores/spiral--letters.zarr")]) == 0
    assert "8 of 15" in capsys.readouterr().out
    # any later run completes it, sharded or not
    end(begin(tmp_path, *MODEL, PAUSE="0"))
    require_same(Store.open(tmp_path / "cache/stores/spiral--letters.zarr"), alone)


def test_a_shard_that_is_being_written_is_refused_to_another_process(tmp_path):
    words = (*MODEL, "--shards", "2", "--shard", "0")
    with begin(tmp_path, *words, PAUSE="1") as first:
        assert first.stderr is not None
        while "are for shard 0" not in first.stderr.readline() and first.poll() is None:
            pass
        with begin(tmp_path, *words) as second:
            _, err = second.communicate(timeout=60)
        first.kill()
    assert second.returncode == 1
    assert f"another process ({first.pid} on " in err


@pytest.mark.parametrize(
    ("environment", "shard"),
    [
        ({}, WHOLE),
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, Shard(index=3, count=8)),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}, Shard(index=1, count=4)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, WHOLE),  # of sbatch itself, outside srun
        (
            {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_PROCID": "0"},
            Shard(index=0, count=2),
        ),
        (
            {
                "SLURM_ARRAY_TASK_ID": "1",
                "SLURM_ARRAY_TASK_COUNT": "2",
                "SLURM_PROCID": "2",
                "SLURM_STEP_NUM_TASKS": "3",
            },
            Shard(index=5, count=6),
        ),
    ],
)
def test_what_schedulers_say(environment, shard):
    assert scheduled_shard(environment) == shard


def test_every_task_of_an_array_of_steps_has_a_shard_of_its_own():
    shards = {
        scheduled_shard(
            {
                "SLURM_ARRAY_TASK_ID": str(task),
                "SLURM_ARRAY_TASK_COUNT": "3",
                "SLURM_ARRAY_TASK_MIN": "1",
                "SLURM_PROCID": str(process),
                "SLURM_STEP_NUM_TASKS": "4",
            }
        )
        for task in (1, 2, 3)
        for process in range(4)
    }
    assert shards == {Shard(index=index, count=12) for index in range(12)}


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "a", "WORLD_SIZE": "2"},
        # --array=0-6:2, whose tasks' distances are 0, 2, 4 and 6
        {"SLURM_ARRAY_TASK_ID": "6", "SLURM_ARRAY_TASK_COUNT": "4"},
    ],
)
def test_variables_that_name_no_shard_are_refused_in_one_line(environment):
    with pytest.raises(ConfigError, match=r"name no shard; say it yourself with --shards N"):
        scheduled_shard(environment)


def test_a_shard_without_blocks_that_ends_first_has_ended_well(tmp_path):
    out, err = end(begin(tmp_path, *MODEL, "--shards", "99", "--shard", "98"))
    assert "0 are for shard 98 of 99" in err
    assert "shard 98 of 99 is there; 15 of 15 blocks are missing" in err
    store = Store.open(tmp_path / out.strip(), unfinished=True)
    assert (len(store), store.loops, store.splits) == (0, 3, ())
