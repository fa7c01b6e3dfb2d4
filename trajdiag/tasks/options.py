"""Task options checked when a task is made, so that a bad one is met before anything runs."""

import re

from trajdiag.errors import ConfigError, shown


def require(condition: bool, option: str, wanted: str, came: object) -> None:
    """Raise ConfigError unless `condition` holds: `option` must be `wanted`, not `came`."""
    if not condition:
        raise ConfigError(f"task option {option} must be {wanted}, not {shown(came)}")


def require_range(lowest: int, min_difficulty: int, max_difficulty: int) -> None:
    """Raise ConfigError unless lowest <= min_difficulty <= max_difficulty."""
    require(min_difficulty >= lowest, "min_difficulty", f"at least {lowest}", min_difficulty)
    require(
        max_difficulty >= min_difficulty,
        "max_difficulty",
        f"at least min_difficulty ({min_difficulty})",
        max_difficulty,
    )


def require_splits(fit: int, val: int, test: int, seeds: tuple[int, ...], bins: int) -> None:
    """Raise ConfigError unless the split sizes are 0 or fill every bin, and there are three
    seeds."""
    for option, size in (("fit", fit), ("val", val), ("test", test)):
        require(size == 0 or size >= bins, option, f"0 or at least {bins}, one a difficulty", size)
    require(fit + val + test > 0, "fit, val, test", "more than 0 together", (fit, val, test))
    require(
        len(seeds) == 3 and len(set(seeds)) == 3 and min(seeds) >= 0,
        "seeds",
        "three different non-negative integers, for fit, val and test",
        seeds,
    )


def name_with(kind: str, subject: str) -> str:
    """The name of a task about `subject`, such as a file: fit to be part of a folder's name."""
    return f"{kind}-{re.sub(r'[^a-zA-Z0-9_.]+', '-', subject)[:60]}"
