"""A store made of somebody's own arrays."""

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trajdiag.errors import ConfigError, NonFiniteError
from trajdiag.signals.registry import signals_to_keep
from trajdiag.store.block import Block
from trajdiag.store.columns import Columns
from trajdiag.store.reader import Store
from trajdiag.store.record import StoreRecord
from trajdiag.store.schema import GATE, SCHEMA_VERSION, SPLITS, block_specs, trajectory_arrays
from trajdiag.store.versions import software_versions
from trajdiag.store.writer import StoreWriter, existing_record, remove_store

Array = np.ndarray | Tensor

SHARES = {"fit": 0.5, "val": 0.2, "test": 0.3}
"""How examples are drawn into splits when the caller does not say."""


def from_arrays(
    path: str | os.PathLike[str],
    hidden: Array,
    logits: Array,
    target: Array,
    gate_logit: Array | None = None,
    difficulty: Array | None = None,
    group: Array | None = None,
    split: Any = None,
    *,
    id: Any = None,
    input: Any = None,
    covariates: dict[str, Array] | None = None,
    class_names: list[str] | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> Store:
    """Write `path` (a folder named NAME.zarr) and open it.

    `hidden` [example, loop, d_model] in float32, bfloat16 or float16; `logits` [example, loop,
    class]; `target` [example] class indices; `gate_logit` [example, loop]; `difficulty` [example],
    0 when absent; `group` [example] integers, each example its own when absent; `split` [example]
    of "fit", "val" and "test", drawn by group from `seed` (half, a fifth, three tenths) when
    absent. The signals are computed. The same arrays again open the store that is there. Raises
    ConfigError for shapes or values that do not fit together or where another store is at `path`,
    NonFiniteError for NaN or infinity, StoreError where `path` is taken by something else.
    """
    states, z = _tensor("hidden", hidden, 3), _tensor("logits", logits, 3).to(torch.float32)
    if states.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        states = states.to(torch.float32)
    examples, loops = states.shape[:2]
    if not states.numel() or not z.numel():
        raise ConfigError(f"hidden {list(states.shape)} and logits {list(z.shape)} hold nothing")
    if z.shape[:2] != (examples, loops):
        raise ConfigError(
            f"logits [example, loop, class] must agree in example and loop with hidden "
            f"{list(states.shape)}, got {list(z.shape)}"
        )
    gate = None
    if gate_logit is not None:
        gate = _tensor("gate_logit", gate_logit, 2).to(torch.float32)
        if gate.shape != (examples, loops):
            raise ConfigError(f"gate_logit must be {[examples, loops]}, got {list(gate.shape)}")
    for name, values in (("hidden", states), ("logits", z), ("gate_logit", gate)):
        if values is not None:
            _require_finite(name, values)
    columns = _columns(
        examples, z.shape[2], target, difficulty, group, split, id, input, covariates or {}, seed
    )
    dtype = str(states.dtype).removeprefix("torch.")
    arrays = trajectory_arrays(
        d_model=states.shape[2], dtype=dtype, classes=z.shape[2], gate=gate is not None
    )
    specs = block_specs(
        arrays,
        examples=examples,
        loops=loops,
        signals=signals_to_keep(loops, logits_kept=True),
    )
    record = StoreRecord(
        schema=SCHEMA_VERSION,
        model={"name": "arrays", "family": "arrays", "sha256": _digest(states, z, gate)},
        task={"name": "arrays", "parameters": {}, "notes": {}},
        config={"dtype": dtype, "columns": columns.checksum()},
        compute_dtype=dtype,
        store_dtype=dtype,
        batch_order="as given",
        class_names=class_names,
        versions=software_versions(),
        commands=[],
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
    )
    if class_names is not None and len(class_names) != z.shape[2]:
        raise ConfigError(f"class_names must be {z.shape[2]}, got {len(class_names)}")
    path = Path(path)
    if overwrite:
        remove_store(path)
    found = existing_record(path)
    if found is not None and found.complete:
        found.require_same(record, path)
        return Store.open(path)
    with StoreWriter(path, record=record, columns=columns, specs=specs) as writer:
        block = Block(specs)
        for index in writer.pending:
            rows = writer.rows(index)
            at = slice(rows.start, rows.stop)
            block.begin(columns.id[at])
            given = {"hidden": states, "logits": z} | ({} if gate is None else {GATE: gate})
            block.fill(np.arange(len(rows)), {n: x[at].unbind(1) for n, x in given.items()})
            writer.write_block(index, block.arrays)
        writer.finish()
    return Store.open(path)


def _columns(
    examples: int,
    classes: int,
    target: Array,
    difficulty: Array | None,
    group: Array | None,
    split: Any,
    id: Any,
    input: Any,
    covariates: dict[str, Array],
    seed: int,
) -> Columns:
    def column(name: str, values: Any, dtype: Any) -> np.ndarray:
        found = np.asarray(values)
        if found.shape != (examples,):
            raise ConfigError(f"{name} must be [{examples}], got {list(found.shape)}")
        if dtype is np.int64 and found.dtype.kind not in "iub":
            raise ConfigError(f"{name} must be integers, got {found.dtype}")
        try:
            return found.astype(dtype)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{name} must be of type {np.dtype(dtype)}: {error}") from error

    goal = column("target", target, np.int64)
    if goal.min() < 0 or goal.max() >= classes:
        raise ConfigError(
            f"target must be class indices 0..{classes - 1}, got {goal.min()}..{goal.max()}"
        )
    groups = np.arange(examples) if group is None else column("group", group, np.int64)
    hard = (
        np.zeros(examples) if difficulty is None else column("difficulty", difficulty, np.float64)
    )
    others = {name: column(name, values, np.float64) for name, values in covariates.items()}
    for name, values in (("difficulty", hard), *others.items()):
        if not np.isfinite(values).all():
            raise NonFiniteError(
                f"{name} of example {np.argmin(np.isfinite(values))} is not finite"
            )
    if split is None:
        splits = _draw_splits(groups, seed)
    else:
        splits = column("split", split, object).astype(str)
        unknown = sorted(set(splits) - set(SPLITS))
        if unknown:
            raise ConfigError(f"split must be one of {', '.join(SPLITS)}, got {', '.join(unknown)}")
    names = [f"{i:08d}" for i in range(examples)] if id is None else id
    return Columns(
        target=goal,
        difficulty=hard,
        group=groups,
        split=splits,
        id=column("id", names, object).astype(str),
        input=None if input is None else column("input", input, object),
        covariates=others,
    )


def _draw_splits(group: np.ndarray, seed: int) -> np.ndarray:
    """A split for each example, the same for all of a group."""
    groups, member = np.unique(group, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(groups))
    edges = np.round(np.cumsum(list(SHARES.values())) * len(groups))
    of_group = np.asarray(list(SHARES))[np.searchsorted(edges, order, side="right")]
    return of_group[member]


def _tensor(name: str, values: Array, dimensions: int) -> Tensor:
    if isinstance(values, np.ndarray):
        # torch reads neither another byte order nor backward strides
        values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    try:
        found = torch.as_tensor(values).detach().cpu()
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise ConfigError(f"{name} must be an array of numbers: {error}") from error
    if found.ndim != dimensions or not found.is_floating_point():
        raise ConfigError(
            f"{name} must be floating point with {dimensions} dimensions, got {found.dtype} "
            f"{list(found.shape)}"
        )
    return found


def _require_finite(name: str, values: Tensor) -> None:
    for start in range(0, len(values), 4096):
        bad = (~torch.isfinite(values[start : start + 4096])).nonzero()
        if len(bad):
            example, loop = start + int(bad[0, 0]), int(bad[0, 1]) + 1
            raise NonFiniteError(
                f"{name} of example {example} at loop {loop} is NaN, infinite or beyond float32"
            )


def _digest(*arrays: Tensor | None) -> str:
    """SHA-256 over dtypes, shapes and bytes: what stands for the model's identity."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None:
            digest.update(f"{array.dtype}{list(array.shape)}".encode())
            for start in range(0, len(array), 4096):
                digest.update(
                    array[start : start + 4096].contiguous().view(torch.uint8).numpy().data
                )
    return digest.hexdigest()
