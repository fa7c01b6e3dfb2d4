"""Reading a store: by split, by loop, in batches, never whole; it writes nothing."""

import copy
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trajdiag.cachedir import find_store, store_name
from trajdiag.errors import NonFiniteError, StoreError, UnknownNameError
from trajdiag.html_tables import html_facts
from trajdiag.signals.registry import SIGNALS
from trajdiag.store.finite import first_non_finite
from trajdiag.store.folder import Folder, open_folder
from trajdiag.store.journal import Journal
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.opening import open_files
from trajdiag.store.predictions import cross_entropy, predictions
from trajdiag.store.record import REPAIR, StoreRecord
from trajdiag.store.schema import (
    COVARIATE,
    GATE,
    HEAD,
    SCORE,
    SIGNAL,
    SPLITS,
    TOKENS,
    ArraySpec,
)
from trajdiag.store.store_files import StoreFiles
from trajdiag.store.token_texts import load_tokens
from trajdiag.store.vocabulary import vocabulary_logits

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from trajdiag.store.head import SavedHead


class Store:
    """A frozen set of trajectories, read-only. Open one with `Store.open`.

    Examples are numbered in store order; `rows` arguments take such numbers. Loops count from 1.
    """

    def __init__(
        self,
        folder: Folder,
        record: StoreRecord,
        specs: dict[str, ArraySpec],
        journal: Journal | None = None,
    ) -> None:
        """`journal` is given of an unfinished store, of which the recorded blocks are seen."""
        self._folder = folder
        self.record = record
        self._specs = specs
        self._journal = journal
        self._rows: np.ndarray | None = None
        self._files = StoreFiles(folder, record, specs, journal)
        self._derived: dict[str, dict[str, np.ndarray]] = {}
        if journal is not None:
            size, count = self.block_examples, specs["hidden"].shape[0]
            there = np.arange(count)
            self._rows = there[np.isin(there // size, list(journal.blocks))]

    @classmethod
    def open(
        cls,
        location: str | os.PathLike[str],
        *,
        unfinished: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> "Store":
        """The store at a path or URL.

        An `unfinished` one is refused unless asked for, and shows the examples whose blocks were
        recorded when it was opened. Blocks of a far store are kept under `cache_dir` while they are
        read. Raises StoreError where the store is absent, foreign, unfinished, of another schema
        version, or lacks bytes.
        """
        opened = open_files(open_folder(location, cache_dir), unfinished=unfinished)
        return cls(opened.folder, opened.record, opened.specs, opened.journal)

    @property
    def location(self) -> str:
        """Its path or URL."""
        return self._folder.location

    @property
    def identity(self) -> str:
        """The same for two locations of one store."""
        return self._folder.identity

    @property
    def path(self) -> Path:
        """Its folder. Raises StoreError where it is not on this machine's file system."""
        if not isinstance(self._folder, LocalFolder):
            raise StoreError(f"store {self.location} has no folder on this machine")
        return self._folder.path

    @property
    def name(self) -> str:
        return store_name(self.location)

    @property
    def missing(self) -> list[int]:
        """The blocks of an unfinished store that were not recorded when it was opened."""
        there = range(self.blocks) if self._journal is None else self._journal.blocks
        return [block for block in range(self.blocks) if block not in there]

    @property
    def blocks(self) -> int:
        return self._specs["hidden"].grid[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all its files."""
        return sum(self._folder.sizes().values())

    @property
    def fingerprint(self) -> str:
        """The content fingerprint written at completion. Raises StoreError before."""
        if not self.record.complete or self.record.fingerprint is None:
            raise StoreError(
                f"store {self.location} is unfinished: {self.blocks - len(self.missing)} of "
                f"{self.blocks} blocks are there, and it is identified by all of them; run the "
                f"command that began it again: {' ; '.join(self.record.commands)}"
            )
        return self.record.fingerprint

    @property
    def loops(self) -> int:
        return self._specs["hidden"].shape[1]

    @property
    def block_examples(self) -> int:
        """Examples that lie together on disk: rows k * block_examples onward are one read."""
        return self._specs["hidden"].chunk[0]

    @property
    def d_model(self) -> int:
        return self._specs["hidden"].shape[2]

    @property
    def classes(self) -> int:
        """Classes of the task; of the question with the most, where their number varies."""
        spec = self._specs.get("logits")
        return (self.record.classes or 0) if spec is None else spec.shape[2]

    @property
    def class_names(self) -> tuple[str, ...] | None:
        names = self.record.class_names
        return None if names is None else tuple(names)

    @cached_property
    def class_texts(self) -> tuple[str, ...] | None:
        """What each class is called where people read it: its name, or, where the classes are the
        tokens of a vocabulary, the token's text, empty for one that its tokenizer does not have.
        None where the store keeps neither. Raises StoreError where they are damaged."""
        if self.class_names is not None or TOKENS not in self.record.attachments:
            return self.class_names
        return load_tokens(self._attachment(TOKENS), store=self.name, classes=self.classes)

    @property
    def has_gate(self) -> bool:
        """Whether the model had a halting gate of its own."""
        return GATE in self._specs

    @property
    def signal_names(self) -> tuple[str, ...]:
        """The signals it gives, in the order of SIGNALS: kept ones, and where it has the task's
        logits those derived from them and the states. What no loop of it defines is left out."""
        derives = "logits" in self._specs
        return tuple(
            name
            for name, signal in SIGNALS.items()
            if SIGNAL + name in self._specs or (derives and signal.first_loop <= self.loops)
        )

    @property
    def kept_signals(self) -> tuple[str, ...]:
        """Those of its signals that were written at extraction."""
        return tuple(name for name in self.signal_names if SIGNAL + name in self._specs)

    @property
    def score_names(self) -> tuple[str, ...]:
        """The scores of continuations that it keeps: none, or sum, tokens and chars."""
        return tuple(n.removeprefix(SCORE) for n in self._specs if n.startswith(SCORE))

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of all arrays."""
        return tuple(self._specs)

    def only(self, rows: np.ndarray) -> "Store":
        """The same store, of which nothing but the examples `rows`, int64 ascending, is seen.

        Examples keep their numbers, and columns such as `target` stay whole.
        """
        part = copy.copy(self)
        part._rows = rows if self._rows is None else np.intersect1d(self._rows, rows)
        part._derived = {}
        part.__dict__.pop("splits", None)
        return part

    def __len__(self) -> int:
        return self._specs["hidden"].shape[0] if self._rows is None else len(self._rows)

    def __repr__(self) -> str:
        return (
            f"Store({self.name}: {len(self)} examples, {self.loops} loops, {self.classes} classes)"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows; no state and no logit is read."""
        model, task, record = self.record.model, self.record.task, self.record
        counts = ", ".join(f"{split} {len(self.rows(split)):,}" for split in self.splits)
        missing = len(self.missing)
        return html_facts(
            f"Store {self.name}",
            [
                ("at", self.location),
                ("model", f"{model.get('name')} ({model.get('family')})"),
                ("task", str(task.get("name"))),
                ("examples", counts),
                ("shape", f"{self.loops} loops, d_model {self.d_model}, {self.classes} classes"),
                ("gate", "the model's own" if self.has_gate else "none"),
                ("signals", ", ".join(self.signal_names)),
                ("state", "complete" if record.complete else f"{missing} blocks are missing"),
                ("size", f"{self.nbytes / 1e6:,.1f} MB"),
                ("made by", " ; ".join(record.commands) or None),
            ],
        )

    @cached_property
    def target(self) -> np.ndarray:
        """int64 [example]."""
        return self._column("target")

    @cached_property
    def difficulty(self) -> np.ndarray:
        """float64 [example]."""
        return self._column("difficulty")

    @cached_property
    def group(self) -> np.ndarray:
        """int64 [example]: the resampling unit."""
        return self._column("group")

    @cached_property
    def split(self) -> np.ndarray:
        """str [example]."""
        return self._column("split").astype(str)

    @cached_property
    def ids(self) -> np.ndarray:
        """str [example]."""
        return self._column("id").astype(str)

    @cached_property
    def inputs(self) -> np.ndarray | None:
        """str (object array) [example]; None where the store was made without them."""
        return self._column("input") if "input" in self._specs else None

    @cached_property
    def covariates(self) -> dict[str, np.ndarray]:
        """float64 [example] by name."""
        names = [name for name in self._specs if name.startswith(COVARIATE)]
        return {name.removeprefix(COVARIATE): self._column(name) for name in names}

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The splits that have examples, in the order fit, val, test."""
        there = self.split[self.rows()]
        return tuple(split for split in SPLITS if np.any(there == split))

    def rows(self, split: str | None = None) -> np.ndarray:
        """The examples of a split, int64, ascending; all where it is None.

        Raises UnknownNameError where the store has no such split.
        """
        rows = np.arange(self._specs["hidden"].shape[0]) if self._rows is None else self._rows
        if split is None:
            return rows
        if not isinstance(split, str) or split not in self.splits:
            raise UnknownNameError(f"split of store {self.name}:", split, self.splits)
        return rows[self.split[rows] == split]

    def numpy(
        self,
        array: str,
        *,
        split: str | None = None,
        rows: np.ndarray | None = None,
        loop: int | None = None,
    ) -> np.ndarray:
        """`array` over the examples of `split`, over `rows`, or over all; of one `loop` or all.

        bfloat16 comes as float32, which holds it exactly.
        """
        found = self._read(array, split, rows, loop)
        if self._spec(array).dtype == "bfloat16":
            return (found.astype(np.uint32) << 16).view(np.float32)
        return found

    def torch(
        self,
        array: str,
        *,
        split: str | None = None,
        rows: np.ndarray | None = None,
        loop: int | None = None,
    ) -> "Tensor":
        """As `numpy`, as a tensor of the array's own dtype, bfloat16 included."""
        import torch

        found = torch.from_numpy(self._read(array, split, rows, loop))
        return found.view(torch.bfloat16) if self._spec(array).dtype == "bfloat16" else found

    def batches(
        self,
        *arrays: str,
        size: int,
        split: str | None = None,
        rows: np.ndarray | None = None,
        loop: int | None = None,
    ) -> Iterator[tuple[np.ndarray, tuple[np.ndarray, ...]]]:
        """Runs of at most `size` examples: their numbers, and each of `arrays` over them."""
        rows = self.rows(split) if rows is None else rows
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            yield part, tuple(self.numpy(array, rows=part, loop=loop) for array in arrays)

    def signal(self, name: str, split: str | None = None) -> np.ndarray:
        """float32 [example, loop]; NaN before the signal's first loop.

        The first signal of a split that was not kept costs a pass over its states and logits, for
        all such signals together; they are remembered.
        """
        if name not in self.signal_names:
            raise UnknownNameError(f"signal of store {self.name}:", name, self.signal_names)
        if name in self.kept_signals:
            return self.numpy(SIGNAL + name, split=split)
        if split is not None:
            return self._derive(split)[name].copy()
        found = np.empty((len(self), self.loops), np.float32)
        for each in self.splits:
            found[np.isin(self.rows(), self.rows(each))] = self._derive(each)[name]
        return found

    def predictions(self, split: str | None = None) -> np.ndarray:
        """The predicted class, int64 [example, loop]; the first of equals."""
        return predictions(self, split)

    def correct(self, split: str | None = None, score: str | None = None) -> np.ndarray:
        """Whether the prediction is the target, bool [example, loop]; by `scores` of this name, or
        as the task decides."""
        target = self.target[self.rows(split), None]
        if score is None:
            return self.predictions(split) == target
        return self.scores(score, split).argmax(2) == target

    def cross_entropy(self, split: str | None = None) -> np.ndarray:
        """-log p(target), nats, float64 [example, loop]."""
        return cross_entropy(self, split)

    def scores(self, name: str, split: str | None = None) -> np.ndarray:
        """What the choices of each question are scored by: float32 [example, loop, class].

        `name` is `sum`, the log-probability of a choice's tokens, or `tokens` or `chars`, that sum
        by their number; PADDED where a question has no such choice.
        """
        if name not in self.score_names:
            raise UnknownNameError(f"score of store {self.name}:", name, self.score_names)
        return self.numpy(SCORE + name, split=split)

    @cached_property
    def head(self) -> "SavedHead":
        """The model's head, checked. Raises StoreError where it is damaged or none was kept."""
        from trajdiag.store.head import load_head

        content = self._attachment(HEAD)
        return load_head(content, store=self.name, model_sha256=self.record.model["sha256"])

    def vocabulary_logits(
        self,
        *,
        split: str | None = None,
        rows: np.ndarray | None = None,
        loop: int | None = None,
    ) -> np.ndarray:
        """Logits of the whole vocabulary at the decision, float32 [row, loop, token], or of one
        `loop` [row, token]: as kept, or after `--logits none` recomputed from the states.

        Raises StoreError where only the largest, or none, were kept.
        """
        return vocabulary_logits(self, split=split, rows=rows, loop=loop)

    def _attachment(self, name: str) -> bytes:
        """The content of a whole file beside the arrays. Raises StoreError where there is none."""
        try:
            return self._folder.read(name)
        except FileNotFoundError:
            raise StoreError(f"store {self.location} has no {name}; {REPAIR}") from None

    def to_pandas(
        self, split: str | None = None, signals: Sequence[str] | None = None
    ) -> "DataFrame":
        """A tidy table, a row an example and loop: see `trajdiag.store.table.to_pandas`."""
        from trajdiag.store.table import to_pandas

        return to_pandas(self, split, signals)

    def _derive(self, split: str) -> dict[str, np.ndarray]:
        """Every signal of the split that is not kept."""
        if split not in self._derived:
            from trajdiag.store.derived_signals import derive_signals

            kept = self.kept_signals
            names = [name for name in self.signal_names if name not in kept]
            self._derived[split] = derive_signals(self, names, split)
        return self._derived[split]

    def _spec(self, array: str) -> ArraySpec:
        if array not in self._specs:
            raise UnknownNameError(f"array of store {self.name}:", array, self._specs)
        return self._specs[array]

    def _column(self, name: str) -> np.ndarray:
        return self._files.column(self._spec(name))

    def _read(
        self, array: str, split: str | None, rows: np.ndarray | None, loop: int | None
    ) -> np.ndarray:
        spec = self._spec(array)
        if split is not None and rows is not None:
            raise ValueError("give split or rows, not both")
        rows = self.rows(split) if rows is None else np.asarray(rows)
        if rows.ndim != 1 or (rows.dtype.kind not in "iu" and len(rows)):
            raise ValueError(f"rows must be numbers of examples, [row], got {ascii(rows)[:60]}")
        rows = rows.astype(np.int64, copy=False)
        if loop is not None and not (len(spec.shape) > 1 and 1 <= loop <= self.loops):
            raise ValueError(f"{array} has no loop {loop}; loops are 1..{self.loops}")
        if len(spec.shape) == 1:
            return self._column(array)[rows]
        loops = range(self.loops) if loop is None else range(loop - 1, loop)
        if len(spec.shape) == 2:
            self._files.require_unchanged(spec)  # small, and a NaN in it may be meant
        found = self._files.read(spec, rows, loops, self._require_finite)
        return found if loop is None else found[:, 0]

    def _require_finite(
        self, spec: ArraySpec, values: np.ndarray, rows: np.ndarray, loop: int
    ) -> None:
        """`values` [row, ...] as stored, of `rows` at `loop` - 1. No NaN or infinity is ever
        written: where one is found, the file has changed since."""
        row = first_non_finite(values, spec.dtype)
        if row is not None:
            example = self.ids[int(rows[row])]
            raise NonFiniteError(
                f"{spec.name} of example {example} at loop {loop + 1} of store {self.location} is "
                f"NaN or infinite, so the file has changed since it was written; {REPAIR}"
            )


def open_store(
    store: "Store | str | os.PathLike[str] | None" = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Store:
    """The store of this name or path; the newest complete one of the cache when None.

    Raises UnknownNameError listing the stores there are, and what `Store.open` raises.
    """
    if isinstance(store, Store):
        return store
    return Store.open(find_store(store, cache_dir), cache_dir=cache_dir)
