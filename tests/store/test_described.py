"""cache/README.md is enough to read a store: this reader knows nothing but what it says."""

import hashlib
import json
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import torch

from tests.looped import Letters, Spiral
from trajdiag.extraction import extract

pytestmark = pytest.mark.usefixtures("small_blocks")


class Described:
    """A reader by the book."""

    def __init__(self, path: Path) -> None:
        self.path = path
        attributes = self.metadata("")["attributes"]
        self.record, self.check = attributes["trajdiag"], attributes["trajdiag_crc32c"]

    def metadata(self, name: str) -> dict:
        return json.loads((self.path / name / "zarr.json").read_text())

    def dtype(self, name: str) -> np.dtype:
        return np.dtype(self.metadata(name)["data_type"]).newbyteorder("<")

    def value(self, name: str, example: int, loop: int) -> np.ndarray:
        metadata = self.metadata(name)
        block, *rest = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        dtype = self.dtype(name)
        if len(metadata["shape"]) == 3:
            n = metadata["shape"][2]
            content = (self.path / name / f"c.{example // block}.{loop - 1}.0").read_bytes()
            return np.frombuffer(content, dtype, n, (example % block) * n * dtype.itemsize)
        content = (self.path / name / f"c.{example // block}.0").read_bytes()
        row = np.frombuffer(content, dtype, rest[0], (example % block) * rest[0] * dtype.itemsize)
        return row[loop - 1]

    def column(self, name: str, example: int) -> np.generic:
        (length,) = self.metadata(name)["chunk_grid"]["configuration"]["chunk_shape"]
        content = (self.path / name / f"c.{example // length}").read_bytes()
        return np.frombuffer(content, self.dtype(name))[example % length]

    def text(self, name: str, example: int) -> str:
        (length,) = self.metadata(name)["chunk_grid"]["configuration"]["chunk_shape"]
        content = (self.path / name / f"c.{example // length}").read_bytes()
        assert int.from_bytes(content[:4], "little") == length
        at = 4
        for _ in range(example % length):
            at += 4 + int.from_bytes(content[at : at + 4], "little")
        size = int.from_bytes(content[at : at + 4], "little")
        return content[at + 4 : at + 4 + size].decode()

    def checksum(self, name: str) -> str:
        metadata = self.metadata(name)
        chunk = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        grid = [-(-n // c) for n, c in zip(metadata["shape"], chunk, strict=True)]
        digest = hashlib.sha256()
        for index in np.ndindex(*grid):
            content = (self.path / name / ".".join(["c", *map(str, index)])).read_bytes()
            digest.update(google_crc32c.value(content).to_bytes(4, "big"))
        return digest.hexdigest()

    def fingerprint(self) -> str:
        arrays = {}
        for name in self.record["checksums"]:
            metadata = self.metadata(name)
            arrays[name] = [
                metadata["shape"],
                metadata["chunk_grid"]["configuration"]["chunk_shape"],
                metadata["attributes"]["trajdiag_dtype"],
                self.checksum(name),
            ]
        content = {
            "schema": self.record["schema"],
            "model": self.record["model"]["sha256"],
            "task": {key: self.record["task"][key] for key in ("name", "parameters")},
            "class_names": self.record["class_names"],
            "arrays": arrays,
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
def store(request, tmp_path):
    return extract(Spiral(dtype=request.param), Letters(), cache_dir=tmp_path)


def test_numbers_and_text_of_any_example(store):
    described, hidden = Described(store.path), store.torch("hidden")
    for example in (0, 63, 64, 100, len(store) - 1):
        assert described.column("target", example) == store.target[example]
        assert described.text("id", example) == store.ids[example]
        assert described.text("split", example) == store.split[example]
        for loop in range(1, store.loops + 1):
            bits = torch.from_numpy(described.value("hidden", example, loop).copy())
            assert torch.equal(bits.view(hidden.dtype), hidden[example, loop - 1])
            found = described.value("signal/entropy", example, loop)
            assert found == store.signal("entropy")[example, loop - 1]


def test_record_and_fingerprint(store):
    described = Described(store.path)
    text = json.dumps(described.record, sort_keys=True, separators=(",", ":"))
    assert google_crc32c.value(text.encode()) == described.check
    assert described.record["checksums"]["hidden"] == described.checksum("hidden")
    assert described.fingerprint() == store.fingerprint


def test_journal(store):
    described = Described(store.path)
    attributes = described.metadata("journal")["attributes"]
    assert attributes["trajdiag"] == described.record
    columns, *blocks = attributes["trajdiag_journal"]
    assert columns["block"] == "columns"
    assert [entry["block"] for entry in blocks] == list(range(store.blocks))
    for entry in blocks:
        for loop, crc in enumerate(entry["crc32c"]["hidden"]):
            file = store.path / "hidden" / f"c.{entry['block']}.{loop}.0"
            assert google_crc32c.value(file.read_bytes()) == crc
        rest = {key: value for key, value in entry.items() if key != "check"}
        text = json.dumps(rest, separators=(",", ":"))
        assert google_crc32c.value(text.encode()) == entry["check"]
