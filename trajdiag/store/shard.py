"""Which blocks of a store a process writes, of several that write it together."""

import math
import re
from dataclasses import dataclass

from trajdiag.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Shard:
    """Every block whose number is `index` modulo `count`."""

    index: int = 0
    """From 0."""
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ConfigError(
                f"shard must be from 0 to {self.count - 1}, one less than --shards {self.count}, "
                f"got {self.index}"
            )

    @property
    def name(self) -> str:
        """`INDEX-of-COUNT`."""
        return f"{self.index}-of-{self.count}"

    @classmethod
    def named(cls, name: str) -> "Shard | None":
        """The shard of this name; None where it is none."""
        found = re.fullmatch(r"(\d{1,9})-of-(\d{1,9})", name)
        if found is None or not int(found[1]) < int(found[2]):
            return None
        return cls(index=int(found[1]), count=int(found[2]))

    def blocks(self, count: int) -> range:
        """Its blocks, of a store of so many."""
        return range(self.index, count, self.count)

    def meets(self, other: "Shard") -> bool:
        """Whether a block can belong to both."""
        return (self.index - other.index) % math.gcd(self.count, other.count) == 0

    def __str__(self) -> str:
        return f"shard {self.index} of {self.count}" if self.count > 1 else "the whole"


WHOLE = Shard()
