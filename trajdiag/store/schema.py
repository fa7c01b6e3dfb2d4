"""The store's schema: which arrays it holds, their shapes, and how they lie on disk.

A store is one Zarr v3 group. Examples are cut into blocks; a chunk file holds one block of one
array (of one loop, for `hidden` and `logits`), uncompressed and C-ordered, so that any Zarr reader
opens it and a memory map reads it. Chunk keys are flat (`c.BLOCK.LOOP.0`): one folder per array.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trajdiag.errors import ConfigError

SCHEMA_VERSION = 1
SPLITS = ("fit", "val", "test")
"""Gates are fitted on `fit`, thresholds chosen on `val`, everything reported on `test`."""

CHUNK_BYTES = 16 * 2**20
"""No chunk file of the big arrays is larger (unless one example is)."""
BLOCK_EXAMPLES = 8192
COLUMN_EXAMPLES = 65536
"""Examples in a chunk of the per-example columns."""

GROUP = "zarr.json"
"""The metadata file of every group and array."""

SIGNAL = "signal/"
COVARIATE = "covariate/"
SCORE = "score/"
"""What continuations are scored by: score/sum, score/tokens, score/chars [example, loop, class]."""
ACCURACIES = {"sum": "acc", "tokens": "acc_tokens", "chars": "acc_norm"}
"""What the accuracy by each of them is called, as lm-evaluation-harness does."""
VOCABULARY = "vocabulary/"
"""Of the whole vocabulary at the decision: see `vocabulary_arrays`."""
ARRAYS = "arrays"
"""The name of the task of a store that was made from arrays."""
GATE = "gate_logit"
CONTINUATION_GATE = "gate_logit_continuation"
"""The mean gate logit over the positions that score a question's continuations."""

HEAD = "head.safetensors"
"""The head that gives the vocabulary's logits again, where none are kept: see store/head.py."""

TOKENS = "target/tokens.json"
"""The texts of the vocabulary, where the classes are its tokens: see store/token_texts.py. Within
an array's folder, since Zarr warns of files that it does not know in a group's."""

VOCABULARY_STATISTICS = ("log_sum_exp", "entropy", "target_log_probability")

GROUPS = (SIGNAL, COVARIATE, SCORE, VOCABULARY)
"""What stands before the names of the arrays that lie in groups."""
_OUTSIDE = (
    "hidden", "logits", GATE, CONTINUATION_GATE,
    "target", "difficulty", "group", "split", "id", "input",
)  # fmt: skip
"""The arrays that lie in none."""

_ON_DISK = {"bfloat16": "uint16"}
_NUMBERS = ("float16", "float32", "float64", "int32", "int64")
_MOST = 2**48
"""No array has more of anything: a number beyond is damage."""
_STRING = "string"


@dataclass(frozen=True, kw_only=True)
class ArraySpec:
    """One array of a store."""

    name: str
    dtype: str
    """A numpy name, `bfloat16` (kept as its bit pattern in uint16) or `string`."""
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    dimension_names: tuple[str, ...]
    zstd: int | None = None
    """The level at which chunk files are compressed; None for the array's own bytes."""

    @property
    def is_string(self) -> bool:
        return self.dtype == _STRING

    @property
    def has_plain_files(self) -> bool:
        """Whether each chunk file is the chunk's numbers, in C order."""
        return not self.is_string and self.zstd is None

    @property
    def disk_dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the bytes on disk, little-endian."""
        return np.dtype(_ON_DISK.get(self.dtype, self.dtype)).newbyteorder("<")

    @property
    def chunk_bytes(self) -> int:
        """Size of each chunk file of a numeric array; the last is padded to the full chunk."""
        return math.prod(self.chunk) * self.disk_dtype.itemsize

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk, strict=True))

    def chunk_keys(self) -> list[str]:
        """The chunk files' names, in C order of the grid."""
        return [self.key(index) for index in np.ndindex(self.grid)]

    def block_keys(self, block: int) -> list[str]:
        """The names of the chunk files that hold a block's examples, in loop order."""
        return [self.key((block, *rest)) for rest in np.ndindex(self.grid[1:])]

    def entry_keys(self, block: int | None) -> list[str]:
        """The chunk files that an entry of the journal names: of a block, or of the columns."""
        return self.chunk_keys() if block is None else self.block_keys(block)

    @staticmethod
    def key(index: Sequence[int]) -> str:
        return ".".join(["c", *map(str, index)])

    def metadata(self) -> dict[str, Any]:
        """The array's zarr.json."""
        if self.is_string:
            data_type, fill = "string", ""
            codec: dict[str, Any] = {"name": "vlen-utf8", "configuration": {}}
        else:
            data_type = self.disk_dtype.name
            fill = 0.0 if self.disk_dtype.kind == "f" else 0
            codec = {"name": "bytes"}
            if self.disk_dtype.itemsize > 1:
                codec["configuration"] = {"endian": "little"}
        codecs: list[dict[str, Any]] = [codec]
        if self.zstd is not None:
            of_zstd = {"level": self.zstd, "checksum": False}
            codecs.append({"name": "zstd", "configuration": of_zstd})
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunk)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
            "fill_value": fill,
            "codecs": codecs,
            "attributes": {"trajdiag_dtype": self.dtype},
            "dimension_names": list(self.dimension_names),
            "storage_transformers": [],
        }

    @classmethod
    def from_metadata(cls, name: str, metadata: Mapping[str, Any]) -> "ArraySpec":
        """The spec whose `metadata` this is. Raises KeyError, TypeError or ValueError for anything
        else."""
        dtype = metadata["attributes"]["trajdiag_dtype"]
        if dtype not in (*_ON_DISK, _STRING, *_NUMBERS):
            raise ValueError(f"trajdiag_dtype is {ascii(dtype)[:40]}")
        codecs = {codec["name"]: codec for codec in metadata["codecs"]}
        zstd = codecs["zstd"]["configuration"]["level"] if "zstd" in codecs else None
        if not (zstd is None or type(zstd) is int):
            raise ValueError(f"the level of zstd is {ascii(zstd)[:40]}")
        spec = cls(
            name=name,
            dtype=dtype,
            shape=_sizes("shape", metadata["shape"]),
            chunk=_sizes("chunk_shape", metadata["chunk_grid"]["configuration"]["chunk_shape"]),
            dimension_names=tuple(str(n) for n in metadata["dimension_names"]),
            zstd=zstd,
        )
        loops = {1: (), 2: spec.shape[1:], 3: (1, *spec.shape[2:])}[len(spec.shape)]
        if spec.chunk[1:] != loops or len(spec.chunk) > len(spec.shape):
            raise ValueError(f"chunk_shape is {list(spec.chunk)} of shape {list(spec.shape)}")
        for field in ("data_type", "codecs", "chunk_key_encoding"):
            if spec.metadata()[field] != metadata[field]:
                raise ValueError(f"{field} is {metadata[field]}, not {spec.metadata()[field]}")
        dimensions = ("example", "loop", third_dimension(name))[: len(spec.shape)]
        if spec.dimension_names != dimensions:
            raise ValueError(f"dimension_names are {spec.dimension_names}, not {dimensions}")
        return spec


def _sizes(field: str, values: Any) -> tuple[int, ...]:
    """The sizes in JSON `values`. Raises ValueError where they are none of an array's."""
    is_list = isinstance(values, list) and 1 <= len(values) <= 3
    if not is_list or not all(type(n) is int and 1 <= n <= _MOST for n in values):
        raise ValueError(f"{field} is {ascii(values)[:60]}")
    return tuple(values)


def is_array_name(name: str) -> bool:
    """Whether a store can have an array of this name."""
    group, _, rest = name.rpartition("/")
    return name in _OUTSIDE or (f"{group}/" in GROUPS and bool(rest))


def third_dimension(name: str) -> str:
    """What an array of three dimensions has of each loop of an example."""
    if name == "hidden":
        return "d_model"
    if name == VOCABULARY + "logits":
        return "token"
    return "rank" if name.startswith(VOCABULARY) else "class"


def block_examples(examples: int, largest_row_bytes: int) -> int:
    """Examples in a block: as many as keep every chunk within CHUNK_BYTES, at most BLOCK_EXAMPLES,
    shared evenly between blocks so that little of the last one is padding."""
    most = max(1, min(BLOCK_EXAMPLES, CHUNK_BYTES // largest_row_bytes))
    blocks = max(1, -(-examples // most))
    even = -(-examples // blocks)
    granule = min(1024, 2 ** max(0, even.bit_length() - 5))
    return min(most, -(-even // granule) * granule)


@dataclass(frozen=True, kw_only=True)
class LoopArray:
    """An array that holds something of every loop of every example."""

    name: str
    dtype: str
    """See ArraySpec."""
    size: int | None = None
    """The size of its third dimension; None for one number a loop."""
    dimension: str = ""
    """The name of its third dimension."""


def trajectory_arrays(
    *, d_model: int, dtype: str, classes: int | None, gate: bool
) -> list[LoopArray]:
    """The states, of `dtype`, the task logits, if they are kept, and the model's own gate."""
    arrays = [LoopArray(name="hidden", dtype=dtype, size=d_model, dimension="d_model")]
    if classes is not None:
        arrays.append(LoopArray(name="logits", dtype="float32", size=classes, dimension="class"))
    return arrays + ([LoopArray(name=GATE, dtype="float32")] if gate else [])


def vocabulary_arrays(logits: str | None, vocab_size: int) -> list[LoopArray]:
    """What is kept of the whole vocabulary's logits at the decision position.

    `logits` is `full` (all of them), `topk:K` (the K largest, with their ids), `none`, or None for
    nothing at all; but for that, log-sum-exp, entropy (nats), the target's log-probability and the
    two largest are always there.
    """
    if logits is None:
        return []
    arrays = [LoopArray(name=VOCABULARY + name, dtype="float32") for name in VOCABULARY_STATISTICS]
    for name, dtype in (("top_logits", "float32"), ("top_ids", "int32")):
        rank = largest_kept(logits, vocab_size)
        arrays.append(LoopArray(name=VOCABULARY + name, dtype=dtype, size=rank, dimension="rank"))
    if logits == "full":
        name = VOCABULARY + "logits"
        arrays.append(LoopArray(name=name, dtype="float32", size=vocab_size, dimension="token"))
    return arrays


def largest_kept(logits: str, vocab_size: int) -> int:
    """How many of the largest logits are kept, given `logits` as in `vocabulary_arrays`."""
    asked = int(logits.removeprefix("topk:")) if logits.startswith("topk:") else 0
    return min(max(2, asked), vocab_size)


def block_specs(
    arrays: Sequence[LoopArray],
    *,
    examples: int,
    loops: int,
    signals: Sequence[str],
    zstd: int | None = None,
) -> dict[str, ArraySpec]:
    """The arrays that are written block by block, with one for each of `signals`, compressed at
    level `zstd`, or not where it is None.

    Raises ConfigError where there is no depth to choose, nothing to decide, or no example.
    """
    if loops < 2:
        raise ConfigError(f"adaptive depth needs at least 2 loops, got {loops}")
    classes = next((array.size for array in arrays if array.name == "logits"), None)
    if classes is not None and classes < 2:
        raise ConfigError(f"a decision needs at least 2 classes, got {classes}")
    if examples < 1:
        raise ConfigError("a store needs at least 1 example, got 0")
    arrays = [*arrays, *(LoopArray(name=SIGNAL + name, dtype="float32") for name in signals)]
    row = max(
        (loops if array.size is None else array.size)
        * np.dtype(_ON_DISK.get(array.dtype, array.dtype)).itemsize
        for array in arrays
    )
    block = block_examples(examples, row)
    specs = {}
    for array in arrays:
        size = () if array.size is None else (array.size,)
        specs[array.name] = ArraySpec(
            name=array.name,
            dtype=array.dtype,
            shape=(examples, loops, *size),
            chunk=(block, 1, *size) if size else (block, loops),
            dimension_names=("example", "loop", *([array.dimension] if size else [])),
            zstd=zstd,
        )
    return specs


def column_spec(name: str, dtype: str, examples: int) -> ArraySpec:
    """A per-example column."""
    return ArraySpec(
        name=name,
        dtype=dtype,
        shape=(examples,),
        chunk=(min(examples, COLUMN_EXAMPLES),),
        dimension_names=("example",),
    )


def group_metadata(attributes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A group's zarr.json."""
    return {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes or {})}


def metadata_file(metadata: Mapping[str, Any]) -> bytes:
    """The bytes of a zarr.json."""
    return json.dumps(metadata, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"
