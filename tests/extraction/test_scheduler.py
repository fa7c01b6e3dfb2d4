"""Which shard torchrun and Slurm give to a process."""

import itertools

import pytest

from trajdiag.errors import ConfigError
from trajdiag.extraction import ExtractConfig
from trajdiag.extraction.scheduler import scheduled_shard
from trajdiag.store.shard import WHOLE, Shard


def array(task: int, *, least: int, count: int) -> dict[str, str]:
    """What Slurm sets in a task of an array that begins at `least`."""
    return {
        "SLURM_ARRAY_TASK_ID": str(task),
        "SLURM_ARRAY_TASK_MIN": str(least),
        "SLURM_ARRAY_TASK_MAX": str(least + count - 1),
        "SLURM_ARRAY_TASK_COUNT": str(count),
    }


def step(process: int, *, count: int) -> dict[str, str]:
    """What srun sets in a process of a step."""
    return {
        "SLURM_PROCID": str(process),
        "SLURM_STEP_NUM_TASKS": str(count),
        "SLURM_NTASKS": str(count),
    }


def torchrun(rank: int, *, world: int) -> dict[str, str]:
    return {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(world)}


def test_without_a_scheduler_it_is_the_whole():
    assert scheduled_shard({}) == WHOLE
    assert scheduled_shard({"HOME": "/root", "SLURM_JOB_ID": "7"}) == WHOLE


@pytest.mark.parametrize("world", [1, 3, 8])
def test_torchrun_gives_each_rank_its_own(world):
    found = [scheduled_shard(torchrun(rank, world=world)) for rank in range(world)]
    assert found == [Shard(index=rank, count=world) for rank in range(world)]


@pytest.mark.parametrize("least", [0, 1, 10])
def test_an_array_may_begin_at_any_number(least):
    found = [scheduled_shard(array(least + i, least=least, count=4)) for i in range(4)]
    assert found == [Shard(index=i, count=4) for i in range(4)]


def test_a_step_gives_each_process_its_own():
    found = [scheduled_shard(step(i, count=5)) for i in range(5)]
    assert found == [Shard(index=i, count=5) for i in range(5)]


def test_steps_of_an_array_share_all_blocks_without_overlap():
    shards = [
        scheduled_shard(array(task, least=3, count=2) | step(process, count=3))
        for task in (3, 4)
        for process in range(3)
    ]
    blocks = sorted(itertools.chain(*(shard.blocks(20) for shard in shards)))
    assert blocks == list(range(20))


def test_torchrun_inside_slurm_counts_before_slurm():
    environment = torchrun(3, world=4) | step(1, count=2) | array(2, least=1, count=2)
    assert scheduled_shard(environment) == Shard(index=3, count=4)


def test_a_batch_script_outside_srun_is_no_process_of_a_step():
    assert scheduled_shard({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}) == WHOLE


@pytest.mark.parametrize("lone", ["RANK", "WORLD_SIZE", "SLURM_ARRAY_TASK_ID", "SLURM_PROCID"])
def test_half_of_a_pair_says_nothing(lone):
    assert scheduled_shard({lone: "1"}) == WHOLE


@pytest.mark.parametrize(
    "environment",
    [
        torchrun(4, world=4),
        torchrun(-1, world=4),
        torchrun(0, world=0),
        {"RANK": "", "WORLD_SIZE": "2"},
        {"RANK": "one", "WORLD_SIZE": "2"},
        {"RANK": "1.0", "WORLD_SIZE": "2"},
        array(2, least=3, count=4),
        array(9, least=3, count=4),
        array(3, least=3, count=4) | {"SLURM_ARRAY_TASK_MIN": "x"},
        step(2, count=2),
        array(3, least=3, count=2) | step(7, count=2),
    ],
)
def test_broken_values_are_one_line_that_says_what_to_do(environment):
    with pytest.raises(
        ConfigError, match=r"name no shard; say it yourself with --shards N"
    ) as error:
        scheduled_shard(environment)
    assert "\n" not in str(error.value)


def test_options_count_before_the_scheduler(monkeypatch):
    for key, value in torchrun(3, world=4).items():
        monkeypatch.setenv(key, value)
    assert ExtractConfig(model="mano").shard_of == Shard(index=3, count=4)
    assert ExtractConfig(model="mano", shards=1, shard=0).shard_of == WHOLE


@pytest.mark.parametrize("options", [{"shards": 2}, {"shard": 0}])
def test_half_of_the_options_is_refused(options):
    with pytest.raises(ConfigError, match="give --shards N and --shard I together, or neither"):
        ExtractConfig(model="mano", **options)


def test_overwriting_is_the_work_of_one_process():
    with pytest.raises(
        ConfigError, match="--overwrite by shard 1 of 2 would remove what the other"
    ):
        ExtractConfig(model="mano", shards=2, shard=1, overwrite=True)
