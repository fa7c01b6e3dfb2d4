"""The errors a user can meet: each message is one line that says what was wanted, what came, and
what to do."""

import difflib
from collections.abc import Iterable

_LONGEST = 80


def shown(value: object) -> str:
    """A value for a message: on one line, and not long."""
    try:
        # A text of numpy's is shown as any other.
        text = repr(str(value) if isinstance(value, str) else value)
    except ValueError:  # a whole number of more digits than Python writes
        return f"an {type(value).__name__} too long to show"
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def meant_share(value: float) -> str:
    """Where a share was wanted and `value` can only be percent: the question that ends a
    message; else nothing."""
    return f"; did you mean {value / 100:g}?" if 1 < value <= 100 else ""


class TrajdiagError(Exception):
    """Base of every error that is the user's to fix. The command line prints it and exits 1."""


class UnknownNameError(TrajdiagError):
    """A name that nothing bears; the message lists the names that exist. Where it is a path,
    `missing` says what is not there."""

    def __init__(
        self, kind: str, name: str, existing: Iterable[str], hint: str = "", missing: str = ""
    ) -> None:
        names = sorted(existing)
        close = (
            difflib.get_close_matches(name, names, 1, cutoff=0.8) if isinstance(name, str) else ()
        )
        super().__init__(
            f"unknown {kind} {shown(name)}{missing}"
            + (f", did you mean {close[0]}?" if close else ";")
            + f" existing: {', '.join(names) or 'none'}"
            + (f". {hint}" if hint else "")
        )
        self.kind = kind
        self._given = kind, name, names, hint, missing

    def __reduce__(self) -> tuple[type["UnknownNameError"], tuple[str, str, list[str], str, str]]:
        return type(self), self._given  # else a process that raises it could not tell another


class ConfigError(TrajdiagError):
    """An option, or a combination of options, that cannot be run."""


class TrajdiagWarning(UserWarning):
    """Something that was left out, and why; nothing stops."""


class UsageError(ConfigError):
    """A command that asks for something another command does. The command line exits 2."""


class CheckpointError(TrajdiagError):
    """A checkpoint that is missing, misshapen, or of an unsupported kind."""


class StoreError(TrajdiagError):
    """A store that is missing, unfinished, damaged, foreign, or of another schema version."""


class BusyError(StoreError):
    """A store, or a shard of one, that a living process is writing."""


class WorkerError(TrajdiagError):
    """Workers of a cluster that are lost again and again."""


class GateError(TrajdiagError):
    """A gate that is missing, damaged, or cannot be fitted."""


class FingerprintError(TrajdiagError):
    """An artifact used with a store it was not made from."""


class NonFiniteError(TrajdiagError):
    """NaN or infinity in weights, states or logits; the message says where."""


class OutOfSpaceError(TrajdiagError):
    """Not enough free disk for what is about to be written."""


class CheckError(TrajdiagError):
    """What `--fail-if` names came true; the report is written."""

    def __init__(self, message: str, report: str) -> None:
        super().__init__(f"{message}. The report is {report}")
        self.report = report
        self._message = message

    def __reduce__(self) -> tuple[type["CheckError"], tuple[str, str]]:
        return type(self), (self._message, self.report)


class ReportError(TrajdiagError):
    """A report that cannot be written where it was asked for."""
