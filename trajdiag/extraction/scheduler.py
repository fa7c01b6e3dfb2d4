"""Which shard a scheduler has given to this process."""

from collections.abc import Mapping

from trajdiag.errors import ConfigError
from trajdiag.store.shard import WHOLE, Shard


def scheduled_shard(environment: Mapping[str, str]) -> Shard:
    """The shard that torchrun says, or Slurm: the task of an array (`sbatch --array=0-7`), of a
    step (`srun --ntasks 8`), or of both; the whole where none does.

    An array's tasks are told apart by their distance from its least number, so that its step must
    be 1. Raises ConfigError where the variables are no such numbers.
    """
    if "RANK" in environment and "WORLD_SIZE" in environment:
        return _shard(environment, "RANK", "WORLD_SIZE")
    task = _shard(
        environment, "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"
    )
    # in a batch script outside srun the last is absent, whatever the number of tasks asked for
    process = _shard(environment, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    return Shard(index=task.index * process.count + process.index, count=task.count * process.count)


def _shard(environment: Mapping[str, str], index: str, count: str, least: str = "") -> Shard:
    if index not in environment or count not in environment:
        return WHOLE
    try:
        first = int(environment.get(least, "0"))
        return Shard(index=int(environment[index]) - first, count=int(environment[count]))
    except (ValueError, ConfigError):
        raise ConfigError(
            f"{index}={environment[index]} and {count}={environment[count]} name no shard; say it "
            "yourself with --shards N --shard I (--shards 1 --shard 0 for the whole)"
        ) from None
