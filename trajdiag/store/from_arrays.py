"""A store made of somebody's own arrays."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import numpy as np

from trajdiag.cachedir import require_place
from trajdiag.errors import ConfigError, shown
from trajdiag.names import require_type
from trajdiag.progress import Progress
from trajdiag.signals.registry import signals_to_keep
from trajdiag.store.block import Block
from trajdiag.store.columns import Columns
from trajdiag.store.folder import Folder, open_folder
from trajdiag.store.given_columns import GivenColumns, said_of_splits
from trajdiag.store.given_loops import (
    GivenLoops,
    Sliceable,
    digest,
    require_axes,
    said_of,
)
from trajdiag.store.given_probabilities import GATE_PROBABILITY
from trajdiag.store.opening import existing_record
from trajdiag.store.reader import Store
from trajdiag.store.record import StoreRecord
from trajdiag.store.removal import emptied
from trajdiag.store.repair import needs_writing
from trajdiag.store.schema import (
    ARRAYS,
    GATE,
    SCHEMA_VERSION,
    ArraySpec,
    block_specs,
    trajectory_arrays,
)
from trajdiag.store.versions import software_versions
from trajdiag.store.writer import StoreWriter
from trajdiag.whole_text import is_whole


def from_arrays(
    path: str | os.PathLike[str],
    hidden: Sliceable,
    logits: Sliceable,
    target: Any,
    gate_logit: Sliceable | None = None,
    difficulty: Any = None,
    group: Any = None,
    split: Any = None,
    *,
    gate_probability: Sliceable | None = None,
    id: Any = None,
    input: Any = None,
    covariates: Mapping[str, Any] | None = None,
    class_names: Sequence[str] | None = None,
    seed: int = 0,
    overwrite: bool = False,
    source: str | None = None,
    command: str | None = None,
    progress: Progress = lambda line: None,
) -> Store:
    """Write `path`, a folder or URL that ends in NAME.zarr, and open it.

    `hidden` [example, loop, d_model] in float32, bfloat16 or float16 (anything else is stored as
    float32); `logits` [example, loop, class]; `gate_logit` [example, loop], the logit of the gate's
    stopping hazard at each loop, or in its place `gate_probability` [example, loop], the hazard
    itself in [0, 1], which is stored as its logit. These may be anything with a shape that gives
    the examples of a slice, such as np.memmap or an array of Zarr or HDF5: they are read twice, a
    block at a time, and never held whole.

    `target` [example] class indices; `difficulty` [example], 0 when absent; `group` [example]
    integers or texts, each example its own when absent; `split` [example] of "fit", "val" and
    "test", or 0, 1 and 2, drawn by group from `seed` (half, a fifth, three tenths) when absent;
    `id` and `input` [example] texts; `covariates` [example] numbers by name. `source` and `command`
    are kept as where the arrays came from and what made the store.

    The signals are computed. The same arrays again open the store that is there. Raises ConfigError
    for shapes or values that do not fit together, for logits that are probabilities, and where
    another store is at `path`, NonFiniteError for NaN or infinity, OutOfSpaceError where the disk
    is too full, StoreError where `path` is taken by something else or cannot be written.
    """
    require_place(path)
    if gate_logit is not None and gate_probability is not None:
        raise ConfigError(f"give {GATE} or {GATE_PROBABILITY}, not both: they say the same")
    overwrite = require_type("overwrite", overwrite, bool)
    seed = require_type("seed", seed, int)
    source = require_type("source", source, str | None)
    command = require_type("command", command, str | None)
    if not isinstance(covariates, Mapping | None):
        raise ConfigError(f"covariates must be arrays by name, got {type(covariates).__name__}")
    given = {
        name: GivenLoops(name, values)
        for name, values in (
            ("hidden", hidden),
            ("logits", logits),
            (GATE, gate_logit),
            (GATE_PROBABILITY, gate_probability),
        )
        if values is not None or name in ("hidden", "logits")
    }
    of_examples = GivenColumns(
        target=target,
        difficulty=difficulty,
        group=group,
        split=split,
        id=id,
        input=input,
        covariates=covariates or {},
    )
    require_axes(given, len(of_examples))
    examples, loops, d_model = given["hidden"].shape
    classes = given["logits"].shape[2]
    columns = of_examples.columns(classes, seed)
    has_gate = not given.keys().isdisjoint((GATE, GATE_PROBABILITY))
    names = None if class_names is None else _class_names(class_names, classes)
    dtype = str(given["hidden"].dtype).removeprefix("torch.")
    specs = block_specs(
        trajectory_arrays(d_model=d_model, dtype=dtype, classes=classes, gate=has_gate),
        examples=examples,
        loops=loops,
        signals=signals_to_keep(loops, logits_kept=True),
    )
    folder = open_folder(path)
    found = None if overwrite else existing_record(folder)
    model = {"name": ARRAYS, "family": ARRAYS}
    if found is not None:
        found.require_made_of(model, folder.location)
    else:
        folder.require_space(_bytes(specs))  # before all of the arrays is read
    record = StoreRecord(
        schema=SCHEMA_VERSION,
        model={
            **model,
            **({} if source is None else {"source": _writable(source)}),
            "sha256": digest(list(given.values()), progress),
        },
        task={"name": ARRAYS, "parameters": {}, "notes": {}},
        config={
            "dtype": dtype,
            "columns": columns.checksum(),
            **({} if names is None else {"class_names": names}),
        },
        compute_dtype=dtype,
        store_dtype=dtype,
        batch_order="as given",
        class_names=names,
        versions=software_versions(),
        commands=[] if command is None else [_writable(command)],
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
    )
    for line in [*said_of(given), *said_of_splits(columns.split)]:
        progress(line)
    if found is not None:
        found.require_same(record, folder.location)
    if overwrite or needs_writing(folder, found, progress):
        _write(folder, record, columns, specs, given, progress, overwrite)
    else:
        progress(f"store {path} is there already, of the same arrays")
    return Store.open(path)


def _class_names(given: Any, classes: int) -> list[str]:
    texts = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(texts, Sequence) or isinstance(texts, str | bytes) or len(texts) != classes:
        raise ConfigError(f"class_names must be {classes} texts, got {_said(texts)}")
    for text in texts:
        if not isinstance(text, str):
            raise ConfigError(f"class_names must be {classes} texts, got {shown(text)}")
    for number, text in enumerate(texts):
        if not is_whole(text) or "\0" in text:
            raise ConfigError(f"class_names must be text, got {shown(text)} for class {number}")
    names = [str(text) for text in texts]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ConfigError(
            f"class_names must tell the classes apart, and {shown(repeated[0])} names "
            f"{names.count(repeated[0])} of them; leave class_names out to have them numbered"
        )
    return names


def _said(texts: Any) -> str:
    many = isinstance(texts, Sequence) and not isinstance(texts, str | bytes)
    return f"{len(texts)}" if many else shown(texts)


def _writable(text: str) -> str:
    """`text`, with a ? for each half character, which no file can keep."""
    return text.encode(errors="replace").decode()


def _bytes(specs: Mapping[str, ArraySpec]) -> int:
    return sum(len(spec.chunk_keys()) * spec.chunk_bytes for spec in specs.values())


def _write(
    folder: Folder,
    record: StoreRecord,
    columns: Columns,
    specs: Mapping[str, ArraySpec],
    given: Mapping[str, GivenLoops],
    progress: Progress,
    overwrite: bool,
) -> None:
    needed = _bytes(specs)
    free = folder.require_space(needed)
    progress(
        f"store {folder.location}: {len(columns):,} examples, {given['hidden'].shape[1]} loops, "
        f"{needed / 2**20:,.1f} MiB"
        + ("" if free is None else f"; {free / 2**30:,.1f} GiB are free")
    )
    with (
        emptied(folder) if overwrite else nullcontext() as lock,
        StoreWriter(folder, record=record, columns=columns, specs=specs, lock=lock) as writer,
    ):
        block = Block(specs)
        for done, index in enumerate(pending := writer.pending):
            rows = writer.rows(index)
            block.begin(columns.id[rows.start : rows.stop])
            loops = {
                GATE if name == GATE_PROBABILITY else name: values.read(
                    rows.start, rows.stop
                ).unbind(1)
                for name, values in given.items()
            }
            block.fill(np.arange(len(rows)), loops)
            writer.write_block(index, block.arrays)
            if 10 * (done + 1) // len(pending) > 10 * done // len(pending) and len(pending) > 1:
                progress(f"{done + 1:,} of {len(pending):,} blocks")
        writer.finish()
