"""A saved readout: a stopping rule with its threshold, what it was chosen for, and how it did."""

import json
import math
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from numpy import int16
from numpy.typing import NDArray

from trajdiag.errors import GateError, TrajdiagError
from trajdiag.gates.gate import CONFIG, Gate, load_gate, read_gate
from trajdiag.html_tables import html_facts, html_table
from trajdiag.metrics.frontier import exit_depth
from trajdiag.readout import Readout
from trajdiag.readout_registry import RuleKind, Scale
from trajdiag.store.reader import Store, open_store


class ReadoutError(TrajdiagError):
    """A readout file that is missing, damaged, foreign, or of no use to a store."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A number, with its interval on test; without one where it was chosen on the same examples."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class SplitNumbers:
    """What a threshold does on one split."""

    examples: int
    groups: int
    depth: Measured
    """Mean exit depth, loops."""
    accuracy: Measured
    risk: Measured
    """Share of examples that are right at the last loop and wrong at the exit; each group weighs
    the same."""


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """A threshold, how it was chosen, and what it does."""

    threshold: float
    """In the readout's unit; a value that equals it leaves. NaN never leaves before the last
    loop."""
    method: str
    val: SplitNumbers
    test: SplitNumbers

    @property
    def never_leaves(self) -> bool:
        """Whether everything runs to the last loop."""
        return math.isnan(self.threshold)


@dataclass(frozen=True, kw_only=True)
class GateWeights:
    """Where a fitted gate lies, and which it is."""

    folder: str
    """Relative to the readout file's folder."""
    sha256: str


@dataclass(frozen=True, kw_only=True)
class SavedReadout:
    """A stopping rule, ready to be applied. `path` is where it lies."""

    name: str
    kind: RuleKind
    direction: Literal["high", "low"]
    """Which values mean ready to stop."""
    first_loop: int
    """The first loop at which it is defined."""
    min_depth: int
    """The least loop at which it may leave."""
    scale: Scale
    unit: str
    formula: str
    gate: GateWeights | None
    """None but for a readout of kind `gate`."""
    target: str
    """`accuracy`, `depth` or `risk`."""
    level: float
    """The accuracy, the mean depth in loops or the risk that was asked for."""
    delta: float | None
    """The chance that the risk is broken; None for other targets."""
    store: str
    fingerprint: str
    """Of the store that it was chosen on."""
    model: str
    model_sha256: str | None
    point: OperatingPoint
    conformal: OperatingPoint | None = None
    """The threshold of conformal risk control, beside it; None for other targets."""
    path: Path = field(default=Path(), compare=False)

    def exit_depth(
        self,
        store: Store | str | os.PathLike[str],
        split: str,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> NDArray[int16]:
        """The loop at which each example of the split leaves: [example].

        `store` may be a name or a path; a name is looked up in `cache_dir`, by default in the cache
        that the readout file lies in. A signal or the model's own gate applies to any store that
        has it; a fitted gate to the store that it was fitted on. Raises ReadoutError where the
        store lacks it or the gate is no longer the same, FingerprintError for another store's gate,
        UnknownNameError for a store that there is not.
        """
        store = open_store(store, self._home if cache_dir is None else cache_dir)
        values = self.readout_of(store).values(store, split)
        first = max(self.first_loop, self.min_depth)
        return exit_depth(values, self.point.threshold, self.direction, first)

    def __repr__(self) -> str:
        threshold = "never leaves" if self.point.never_leaves else f"{self.point.threshold:.6g}"
        return (
            f"SavedReadout({self.name} on {self.store}, {self.target} {self.level:g}: threshold "
            f"{threshold}, test depth {self.point.test.depth.value:.2f}, test accuracy "
            f"{self.point.test.accuracy.value:.4f})"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the rule, and what it does on val and on test."""
        point = self.point
        stops = "never" if point.never_leaves else f"at a {self.direction} value"
        first = max(self.first_loop, self.min_depth)
        facts = html_facts(
            f"Readout {self.name}",
            [
                ("leaves", f"{stops}, threshold {point.threshold:.6g} ({self.unit})"),
                ("from loop", str(first)),
                ("target", f"{self.target} {self.level:g}"),
                ("chosen on", self.store),
                ("file", str(self.path)),
            ],
        )
        numbers = html_table(
            "What it does",
            ["split", "examples", "mean depth", "accuracy %", "risk %"],
            [
                [
                    name,
                    f"{of.examples:,}",
                    f"{of.depth.value:.2f}",
                    f"{100 * of.accuracy.value:.2f}",
                    f"{100 * of.risk.value:.2f}",
                ]
                for name, of in (("val", point.val), ("test", point.test))
            ],
        )
        return facts + numbers

    @property
    def _home(self) -> Path | None:
        """The root of the cache that the file lies in: ROOT/readouts/STORE/FILE."""
        above = self.path.absolute().parents
        return above[2] if len(above) > 2 and above[1].name == "readouts" else None

    def readout_of(self, store: Store) -> Readout:
        """Its values on `store`, but for the least depth. Raises as `exit_depth` does."""
        if self.kind == "signal" and self.name not in store.signal_names:
            raise ReadoutError(
                f"store {store.name} has no signal {self.name}, which readout {self.path} reads; "
                f"it has {', '.join(store.signal_names) or 'none'}"
            )
        if self.kind in ("native", "variant") and not store.has_gate:
            raise ReadoutError(
                f"store {store.name} has no gate of its model's own, which readout {self.path} "
                "reads; extract a model that has one"
            )
        return Readout(
            name=self.name,
            kind=self.kind,
            direction=self.direction,
            first_loop=self.first_loop,
            unit=self.unit,
            scale=self.scale,
            gate=None if self.gate is None else self.load_gate(store),
        )

    def load_gate(self, store: Store | None = None) -> Gate:
        """The fitted gate behind a readout of kind `gate`, which must have been fitted on `store`
        where one is given.

        Raises GateError or ReadoutError where it is not there or no longer the same,
        FingerprintError where it was fitted on another store.
        """
        assert self.gate is not None
        folder = self.path.parent / self.gate.folder
        gate = read_gate(folder) if store is None else load_gate(folder, store)
        if weights_sha256(folder) != self.gate.sha256:
            raise ReadoutError(
                f"gate {folder} was fitted again since readout {self.path} was chosen; choose its "
                f"threshold again with `{self.command}`"
            )
        if (self.direction, self.first_loop) != (gate.direction, gate.first_loop):
            raise ReadoutError(
                f"readout {self.path} is damaged: gate {gate.name} stops when {gate.direction}, "
                f"from loop {gate.first_loop}; choose it again with `{self.command}`"
            )
        return gate

    @property
    def command(self) -> str:
        """The command line that chooses it again."""
        words = ["trajdiag", "score", self.store, "--readouts", self.name]
        words += ["--target", f"{self.target}={self.level:.12g}"]
        if self.delta is not None:
            words += ["--delta", f"{self.delta:.12g}"]
        if self.min_depth != 1:
            words += ["--min-depth", str(self.min_depth)]
        return shlex.join(words)


def weights_sha256(folder: Path) -> str:
    """What the gate in `folder` says that its weights are."""
    try:
        return str(json.loads((folder / CONFIG).read_text(encoding="utf-8"))["sha256"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise GateError(f"gate {folder} is damaged: {CONFIG} names no weights") from error
