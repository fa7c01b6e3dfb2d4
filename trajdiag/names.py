"""Names that become folders: of stores, gates, checkpoints and covariates."""

import re

from trajdiag.errors import ConfigError

_LONGEST = 120


def require_name(kind: str, name: str) -> str:
    """`name`, unless it cannot be one folder's name everywhere: ConfigError says what can."""
    plain = isinstance(name, str) and re.fullmatch(r"[\w+=,@%~ -][\w+=,@%~. -]*", name) is not None
    if not plain or len(name) > _LONGEST:
        raise ConfigError(
            f"a {kind}'s name must be one folder's name of letters, digits, spaces and "
            f"_+=,@%~.- that does not begin with a dot, at most {_LONGEST} long; "
            f"got {ascii(name)[:80]}"
        )
    return name
