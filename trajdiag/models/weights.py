"""Weights on disk: one safetensors file, or shards with an index. Nothing else is ever read."""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from trajdiag.errors import CheckpointError, NonFiniteError
from trajdiag.store.durable import replacing, write_file

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_NAMED = 5
_PIECE = 2**24
"""Bytes of a file that are read between one opening and the next."""
_FLOATS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
}
_FLOAT_NAMES = {dtype: name for name, dtype in _FLOATS.items()}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises CheckpointError in one line where it is not one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}; get the file again") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} must hold a JSON object, not a {type(content).__name__}")
    return content


def weight_files(folder: Path) -> dict[str, Path]:
    """The file of each tensor name, name order. Raises CheckpointError where files are missing or
    damaged, or disagree with the index."""
    if (folder / SINGLE).is_file():
        with _opened(folder / SINGLE) as file:
            return dict.fromkeys(sorted(file.keys()), folder / SINGLE)
    if (folder / INDEX).is_file():
        return _sharded_files(folder)
    pickles = sorted(p.name for p in folder.iterdir() if p.suffix in _PICKLES)
    if pickles:
        raise CheckpointError(
            f"{folder} holds its weights in {listed(pickles)}; only safetensors are read: "
            f"save them as {SINGLE}"
        )
    raise CheckpointError(
        f"{folder} has neither {SINGLE} nor {INDEX}; give the folder that holds the weights"
    )


def check_tensors(files: Mapping[str, Path], wanted: Mapping[str, torch.Size]) -> None:
    """Refuse, naming them, tensors that are missing, extra, misshapen or not floating point."""
    faults = []
    if missing := sorted(set(wanted) - set(files)):
        faults.append(f"missing {listed(missing)}")
    if extra := sorted(set(files) - set(wanted)):
        faults.append(f"unexpected {listed(extra)}")
    shapes, dtypes = [], []
    for path, names in _by_file(files):
        with _opened(path) as file:
            for name in names:
                entry = file.get_slice(name)
                if name in wanted and list(wanted[name]) != entry.get_shape():
                    shapes.append(f"{name} {entry.get_shape()}, not {list(wanted[name])}")
                if entry.get_dtype() not in _FLOATS:
                    dtypes.append(f"{name} {entry.get_dtype()}")
    if shapes:
        faults.append(f"misshapen {listed(sorted(shapes))}")
    if dtypes:
        faults.append(f"not floating point {listed(sorted(dtypes))}")
    if faults:
        folder = next(iter(files.values())).parent if files else ""
        raise CheckpointError(f"{folder}: tensors do not fit config.json: {'; '.join(faults)}")


def stream_tensors(files: Mapping[str, Path]) -> Iterator[tuple[str, Tensor]]:
    """Each tensor in turn, in the file's dtype, on the CPU, name order.

    A tensor is the file's own pages, mapped: it costs no memory that the system cannot take back,
    writing to it changes no file, and replacing the file by another of its name leaves it as it is;
    but a file cut short in place ends the process that reads on. Whoever converts tensors as they
    come holds at most two pieces of the file beside the results. Raises NonFiniteError naming the
    first tensor with NaN or infinity.
    """
    for path, names in _by_file(files):
        for piece in _pieces(path, names):
            # Pages stay in memory as long as the opening they were read through.
            with _opened(path) as file:
                for name in piece:
                    tensor = file.get_tensor(name)
                    refuse_non_finite(name, tensor, path)
                    yield name, tensor
                    del tensor


def _pieces(path: Path, names: list[str]) -> Iterator[list[str]]:
    """Runs of names of about _PIECE bytes."""
    with _opened(path) as file:
        entries = [(name, file.get_slice(name)) for name in names]
        sizes = [math.prod(e.get_shape()) * _FLOATS[e.get_dtype()].itemsize for _, e in entries]
        del entries
    piece: list[str] = []
    size = 0
    for name, its in zip(names, sizes, strict=True):
        if piece and size + its > _PIECE:
            yield piece
            piece, size = [], 0
        piece.append(name)
        size += its
    if piece:
        yield piece


def refuse_non_finite(name: str, tensor: Tensor, where: Path) -> None:
    """Raise NonFiniteError where the tensor has NaN or infinity."""
    if tensor.numel() and not all(extreme.isfinite() for extreme in tensor.aminmax()):
        place = (~tensor.isfinite()).nonzero()[0].tolist()
        raise NonFiniteError(f"{where}: weight {name} is not finite, first at {place}")


class WeightsHash:
    """SHA-256 over tensors' names, dtypes, shapes and bytes; feed them in name order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, name: str, tensor: Tensor) -> None:
        head = [name, _FLOAT_NAMES[tensor.dtype], list(tensor.shape)]
        self._hash.update(json.dumps(head).encode())
        self._hash.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def write_weights(
    folder: Path, tensors: Mapping[str, Tensor], max_shard_bytes: int | None = None
) -> None:
    """Write CPU tensors as one file, or as shards of at most `max_shard_bytes` with their index; a
    larger tensor gets a shard of its own. Each file is whole and on disk before it bears its name.
    Raises OutOfSpaceError where the disk is full, StoreError where it cannot be written.
    """
    for name, tensor in tensors.items():
        refuse_non_finite(name, tensor, folder / SINGLE)
    shards = _shards(tensors, max_shard_bytes)
    if len(shards) == 1:
        _save(folder / SINGLE, shards[0])
        (folder / INDEX).unlink(missing_ok=True)
        return
    weight_map = {}
    for number, shard in enumerate(shards, start=1):
        file_name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        _save(folder / file_name, shard)
        weight_map |= dict.fromkeys(shard, file_name)
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    write_file(folder / INDEX, (json.dumps(index, indent=2) + "\n").encode())
    (folder / SINGLE).unlink(missing_ok=True)


def listed(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _sharded_files(folder: Path) -> dict[str, Path]:
    weight_map = read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{folder / INDEX} has no weight_map; get the file again")
    files: dict[str, Path] = {}
    for name, file_name in sorted(weight_map.items()):
        # A shard is a plain name beside its index: never a path that leads elsewhere.
        if not isinstance(file_name, str) or Path(file_name).name != file_name:
            raise CheckpointError(f"{folder / INDEX}: {name} is in {file_name!r}, not a file name")
        if not file_name.endswith(".safetensors"):
            raise CheckpointError(f"{folder / INDEX}: only safetensors are read, not {file_name}")
        files[name] = folder / file_name
    absent = sorted({path.name for path in files.values() if not path.is_file()})
    if absent:
        raise CheckpointError(
            f"{folder} lacks {listed(absent)}, which {INDEX} names; put them there"
        )
    for path, names in _by_file(files):
        with _opened(path) as file:
            held = set(file.keys())
        if lost := sorted(set(names) - held):
            raise CheckpointError(f"{path} lacks {listed(lost)}, which {INDEX} places there")
        if stray := sorted(held - set(names)):
            raise CheckpointError(f"{path} holds {listed(stray)}, which {INDEX} does not name")
    return files


def _by_file(files: Mapping[str, Path]) -> list[tuple[Path, list[str]]]:
    """Runs of consecutive names, in name order, that lie in one file."""
    runs: list[tuple[Path, list[str]]] = []
    for name in sorted(files):
        if not runs or runs[-1][0] != files[name]:
            runs.append((files[name], []))
        runs[-1][1].append(name)
    return runs


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise CheckpointError(
            f"{path} is not a whole safetensors file: {error}; get it again"
        ) from error
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def _shards(tensors: Mapping[str, Tensor], most: int | None) -> list[dict[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name in sorted(tensors):
        if most is not None and shards[-1] and size + tensors[name].nbytes > most:
            shards.append({})
            size = 0
        shards[-1][name] = tensors[name].contiguous()
        size += tensors[name].nbytes
    return shards


def _save(path: Path, tensors: dict[str, Tensor]) -> None:
    with replacing(path) as partial:
        try:
            save_file(tensors, partial, metadata={"format": "pt"})
        except SafetensorError as error:
            of_system = re.search(r"os error ([0-9]+)", str(error))
            if of_system is None:
                raise
            number = int(of_system[1])
            raise OSError(number, os.strerror(number)) from error
