"""Somebody's own per-example values: checked, completed, and made the columns of a store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np

from trajdiag.errors import ConfigError, NonFiniteError, shown
from trajdiag.store.columns import Columns
from trajdiag.store.given_loops import require_unmasked
from trajdiag.store.schema import SPLITS

SHARES = {"fit": 0.5, "val": 0.2, "test": 0.3}
"""How examples are drawn into splits when the caller does not say."""


@dataclass(frozen=True, kw_only=True)
class GivenColumns:
    """Values [example] each, as they came; what is None is filled in.

    Values of no one dtype (lists, arrays of objects) must all be texts or all be numbers: a mixture
    is refused, so that 1 and "1" do not become one.
    """

    target: Any
    """Integers: the index of the right class."""
    difficulty: Any = None
    """Numbers; 0 when absent."""
    group: Any = None
    """Integers or texts, the resampling unit; each example its own when absent."""
    split: Any = None
    """`fit`, `val` and `test`, or 0, 1 and 2 for them; drawn by group when absent."""
    id: Any = None
    """Texts or integers, unique; numbered when absent."""
    input: Any = None
    """Texts."""
    covariates: Mapping[str, Any] = field(default_factory=dict)
    """Numbers each."""

    def columns(self, classes: int, seed: int) -> Columns:
        """What a store of so many classes keeps of it; `seed` draws the splits that are missing.

        Raises ConfigError for values that do not fit, NonFiniteError for NaN and infinity.
        """
        if seed < 0:
            raise ConfigError(f"seed must be a whole number, at least 0, got {shown(seed)}")
        target = self._target(classes)
        group = np.arange(len(target)) if self.group is None else self._group()
        ids = [f"{i:08d}" for i in range(len(target))] if self.id is None else self.id
        return Columns(
            target=target,
            difficulty=self._numbers(
                "difficulty", np.zeros(len(target)) if self.difficulty is None else self.difficulty
            ),
            group=group,
            split=draw_splits(group, seed) if self.split is None else self._split(),
            id=_unique("id", self._texts("id", ids)),
            input=None if self.input is None else self._texts("input", self.input),
            covariates={name: self._numbers(name, v) for name, v in self.covariates.items()},
        )

    def __len__(self) -> int:
        """The number of targets: of examples."""
        shape = _array("target", self.target).shape
        if len(shape) != 1 or not shape[0]:
            hint = "; of one-hot rows give the argmax" if len(shape) == 2 and shape[1] > 1 else ""
            raise ConfigError(f"target must be [example], class indices, got {list(shape)}{hint}")
        return shape[0]

    def _values(self, name: str, values: Any) -> np.ndarray:
        found = _array(name, values)
        if found.shape != (len(self),):
            raise ConfigError(
                f"{name} {list(found.shape)} must have an entry an example, as target [{len(self)}]"
            )
        return found

    def _target(self, classes: int) -> np.ndarray:
        found = _integers("target", self._values("target", self.target))
        outside = (found < 0) | (found >= classes)
        if outside.any():
            hint = ""
            if found.min() >= 1 and found.max() == classes:
                hint = "; they seem to count from 1, give target - 1"
            elif (found[outside] < 0).all():
                hint = "; leave out the examples that have no right class"
            raise ConfigError(
                f"target must be class indices 0..{classes - 1} (logits have {classes} classes), "
                f"got {found.min()}..{found.max()}, outside in {outside.sum():,} of {len(self):,} "
                f"examples{hint}"
            )
        return found

    def _group(self) -> np.ndarray:
        found = self._values("group", self.group)
        if found.dtype.kind in "USOT":
            return np.unique(self._texts("group", found).astype(str), return_inverse=True)[1]
        return _integers("group", found)

    def _split(self) -> np.ndarray:
        found = self._values("split", self.split)
        if found.dtype.kind in "iu" and set(np.unique(found)) <= set(range(len(SPLITS))):
            return np.asarray(SPLITS)[found]
        texts = self._texts("split", found).astype(str)
        unknown = sorted(set(texts) - set(SPLITS))
        if unknown:
            raise ConfigError(
                f"split must be one of {', '.join(SPLITS)} (or 0, 1, 2 for them), got "
                f"{', '.join(unknown[:5])[:80]}; gates learn on fit, thresholds are chosen on val, "
                "numbers come from test"
            )
        return texts

    def _texts(self, name: str, values: Any) -> np.ndarray:
        found = self._values(name, values)
        if found.dtype.kind == "T":
            found = np.asarray(found.tolist(), object)
        if found.dtype.kind == "S":
            try:
                found = np.strings.decode(found, "utf-8")
            except UnicodeDecodeError as error:
                raise ConfigError(f"{name} must be text in UTF-8: {error}") from None
        if found.dtype.kind not in "iuUO":
            raise ConfigError(f"{name} must be text or integers, got {found.dtype}")
        texts = found.astype(str).astype(object) if found.dtype.kind != "O" else found
        for example, text in enumerate(texts.tolist()):
            if "\0" in text:
                # numpy's texts end at the last character that is none, so that two become one
                raise ConfigError(
                    f"{name} of example {example} holds a NUL character, which not every reader of "
                    f"a store keeps: {shown(text)}; take it out"
                )
        return texts

    def _numbers(self, name: str, values: Any) -> np.ndarray:
        found = self._values(name, values)
        if found.dtype.kind not in "biuf":
            came = "texts" if found.dtype.kind == "O" else found.dtype
            raise ConfigError(f"{name} must be numbers, got {came}")
        with np.errstate(over="ignore"):
            numbers = found.astype(np.float64)
        bad = ~np.isfinite(numbers)
        if bad.any():
            first = bad.argmax()
            raise NonFiniteError(
                f"{name} of example {first} is "
                f"{'beyond float64' if np.isfinite(found[first]) else 'not finite'}; so it is in "
                f"{bad.sum():,} of {len(self):,} examples (counted from 0)"
            )
        return numbers


def said_of_splits(split: np.ndarray) -> list[str]:
    """What cannot be done for want of a split, a line each."""
    uses = {"fit": "fit-gate learns on it", "val": "thresholds are chosen on it"}
    return [
        f"no example is of split {name}: {uses.get(name, 'score and report take numbers from it')}"
        for name in SPLITS
        if not np.any(split == name)
    ]


def draw_splits(group: np.ndarray, seed: int) -> np.ndarray:
    """A split for each example, the same for all of a group."""
    groups, member = np.unique(group, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(groups))
    edges = np.round(np.cumsum(list(SHARES.values())) * len(groups))
    of_group = np.asarray(list(SHARES))[np.searchsorted(edges, order, side="right")]
    return of_group[member]


def _array(name: str, values: Any) -> np.ndarray:
    """`values`, which may be a tensor."""
    require_unmasked(name, values)
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        # numpy has no bfloat16
        values = values.double() if values.is_floating_point() else values
    try:
        found = np.asarray(values)
        if isinstance(values, list | tuple) and found.ndim == 1 and found.dtype.kind in "US":
            found = np.asarray(values, object)  # numpy makes texts of numbers beside texts
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{name} must be an array [example]: {error}") from error
    mixed = found.dtype.kind == "O" and found.ndim == 1 and len(found)
    return _of_one_kind(name, found) if mixed else found


def _of_one_kind(name: str, values: np.ndarray) -> np.ndarray:
    """Objects as texts (dtype object), bytes, integers or floats, if they are all of one kind."""
    kinds = [_kind(value) for value in values.tolist()]
    if len(set(kinds)) > 1 and set(kinds) <= {int, float}:
        kinds = [float]
    if len(set(kinds)) != 1 or kinds[0] is None:
        odd = next((i for i, kind in enumerate(kinds) if kind is None or kind != kinds[0]), 0)
        raise ConfigError(
            f"{name} must be all texts or all numbers, got {_said(values[odd])} for example {odd}"
            + (f", {_said(values[0])} for example 0" if odd else "")
        )
    try:
        return values if kinds[0] is str else np.asarray(values.tolist(), kinds[0])
    except OverflowError as error:
        raise ConfigError(f"{name} must be numbers that 64 bits hold: {error}") from error


def _kind(value: Any) -> type | None:
    kinds = ((str, str), (bytes, bytes), (Integral, int), (Real, float))
    boolean = isinstance(value, bool | np.bool_)
    return next((k for of, k in kinds if isinstance(value, of) and not boolean), None)


def _said(value: Any) -> str:
    return f"{value!a:.40} ({type(value).__name__})"


def _integers(name: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iub":
        came = "texts" if values.dtype.kind == "O" else values.dtype
        raise ConfigError(f"{name} must be integers, got {came}{_cast(name, values)}")
    if values.dtype.kind == "u" and values.size and values.max() > np.iinfo(np.int64).max:
        raise ConfigError(f"{name} must be integers below 2^63, got {values.max()}")
    return values.astype(np.int64)


def _cast(name: str, values: np.ndarray) -> str:
    """How floats become integers, where they are whole."""
    if values.dtype.kind != "f":
        return ""
    broken = values[~(np.isfinite(values) & (values == np.floor(values)))]
    if len(broken):
        return f" with {broken[0]:g}; give whole numbers"
    return f"; cast it, as by {name}.astype('int64')"


def _unique(name: str, texts: np.ndarray) -> np.ndarray:
    values, counts = np.unique(texts.astype(str), return_counts=True)
    if len(values) < len(texts):
        raise ConfigError(
            f"{name} {shown(str(values[counts.argmax()]))} is given more than once, "
            f"{len(texts) - len(values):,} of {len(texts):,} repeat another; leave {name} out to "
            "have examples numbered"
        )
    return texts
