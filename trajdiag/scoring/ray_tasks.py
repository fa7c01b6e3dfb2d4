"""Runs of parts as Ray tasks, and their results added up in a tree of tasks."""

from collections.abc import Callable, Sequence
from typing import Any

from trajdiag.errors import TrajdiagError
from trajdiag.ray_cluster import join_ray


def run_on_ray(
    over_range: Callable[..., Any],
    add: Callable[[Any, Any], Any],
    task: Any,
    sample: Any,
    ranges: Sequence[range],
) -> Any:
    """`over_range(task, sample, range)` of every range, neighbours pairwise added, until one is
    left. Ray is started on this machine, or joined where RAY_ADDRESS says so, unless it runs."""
    ray = join_ray()
    work = ray.put(task), ray.put(sample)
    one, pair = ray.remote(over_range), ray.remote(add)
    pending = [one.remote(*work, each) for each in ranges]
    while len(pending) > 1:
        paired = [pair.remote(*two) for two in zip(pending[::2], pending[1::2], strict=False)]
        pending = paired + pending[2 * len(paired) :]
    try:
        return ray.get(pending[0])
    except ray.exceptions.RayTaskError as error:
        # what a task raised is the same error as without Ray, told in its own line
        raise error.cause if isinstance(error.cause, TrajdiagError) else error from None
