"""A Ray cluster: the one that is there, or one of this machine."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from trajdiag.errors import ConfigError

Launcher = Literal["local", "ray"]
"""Where work is done: in this process, or as tasks on a Ray cluster."""
EXTRA = "Ray is not installed; install it with `pip install 'trajdiag[scale]'`"


def require_ray() -> Any:
    """The module `ray`. Raises ConfigError where it is not installed."""
    try:
        import ray
    except ImportError:
        raise ConfigError(EXTRA) from None
    return ray


def join_ray() -> Any:
    """`ray`, joined to the cluster that RAY_ADDRESS names or that runs on this machine; where there
    is none, and Ray does not run in this process, one of this machine is started."""
    ray = require_ray()
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            address = os.environ.get("RAY_ADDRESS", "of this machine")
            raise ConfigError(
                f"cannot join the Ray cluster {address}: {' '.join(str(error).split())[:300]}; "
                "check RAY_ADDRESS, or start it with `ray start --head`"
            ) from error
    return ray


@contextmanager
def on_ray() -> Iterator[Any]:
    """`join_ray`, and left again at the end unless it had been joined before."""
    ray = require_ray()
    was_joined = ray.is_initialized()
    try:
        yield join_ray()
    finally:
        if not was_joined:
            ray.shutdown()
