"""Two stores that were made once, by the first version, open for ever and hold the same numbers.

Where this fails, stores of users no longer open: raise SCHEMA_VERSION, or mend the reader; never
make these files again.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from trajdiag.store.folder import open_folder
from trajdiag.store.inspection import inspect
from trajdiag.store.reader import Store

GOLDEN = Path(__file__).parent / "golden"
FINGERPRINTS = {
    "float32.zarr": "91a248e6c2b225460bb482463f03d5cb41cf244c00fcf20006ba60c62a3c5a87",
    "bfloat16.zarr": "212233f43354d3350ce37282e61be8e0954974f4c68f97fbc91acacecf3348ca",
}
"""The second is compressed by zstd, and keeps the head in place of the vocabulary's logits."""
# float32 and bfloat16 of the same state: example 5 at loop 3
STATES = {
    "float32.zarr": [
        -0.6208726763725281,
        -0.29940342903137207,
        0.6518238186836243,
        0.10393507033586502,
        0.28003358840942383,
        0.2990736663341522,
        0.74040287733078,
        0.6003254652023315,
    ],
    "bfloat16.zarr": [
        -0.62109375,
        -0.302734375,
        0.65234375,
        0.10498046875,
        0.27734375,
        0.296875,
        0.7421875,
        0.6015625,
    ],
}
# of example 6 at loop 3
LOGITS = {
    "float32.zarr": [
        -0.020376205444335938,
        1.0051171779632568,
        1.022165298461914,
        2.094297409057617,
    ],
    "bfloat16.zarr": [
        -0.0204925537109375,
        1.0014610290527344,
        1.020060420036316,
        2.095553398132324,
    ],
}


@pytest.fixture(params=FINGERPRINTS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_golden_store_is_the_one_that_was_made(name: str):
    store = Store.open(GOLDEN / name)
    assert store.fingerprint == FINGERPRINTS[name]
    assert (len(store), store.loops, store.d_model, store.classes) == (7, 3, 8, 4)


def test_its_numbers_are_what_they_were(name: str):
    store = Store.open(GOLDEN / name)
    assert store.numpy("hidden", rows=np.array([5]), loop=3)[0].tolist() == STATES[name]
    assert store.numpy("logits", loop=3)[6].tolist() == LOGITS[name]
    assert store.predictions().tolist() == [[3] * 3] * 4 + [[2, 3, 3]] + [[3] * 3] * 2


def test_its_columns_are_what_they_were(name: str):
    store = Store.open(GOLDEN / name)
    assert store.target.tolist() == [3, 2, 0, 1, 0, 3, 1]
    assert store.difficulty.tolist() == [6, 5, 4, 4, 6, 6, 2]
    assert store.group.tolist() == [0, 0, 1, 0, 0, 0, 0]
    assert store.split.tolist() == ["fit"] * 3 + ["val"] * 2 + ["test"] * 2
    assert store.ids.tolist() == [
        *("fit-0000", "fit-0001", "fit-0002"),
        *("val-0000", "val-0001", "test-0000", "test-0001"),
    ]
    assert store.inputs is not None
    assert store.inputs[4:].tolist() == ["8 0 0 2 2 7", "2 4 2 6 8 1", "4 1"]
    assert store.covariates["ones"].tolist() == [1, 0, 0, 0, 0, 1, 1]


def test_signals_and_the_gate_are_what_they_were():
    store = Store.open(GOLDEN / "float32.zarr")
    entropy = [1.138814926147461, 1.0109786987304688, 0.9743756651878357]
    assert store.signal("entropy")[0].tolist() == entropy
    gate = [-0.5489599704742432, -1.2856528759002686, -0.6695892810821533]
    assert store.numpy("gate_logit")[6].tolist() == gate


def test_the_kept_head_gives_the_logits_of_the_vocabulary():
    store = Store.open(GOLDEN / "bfloat16.zarr")
    found = store.vocabulary_logits(rows=np.array([6]), loop=3)[0]
    assert found.shape == (11,)
    np.testing.assert_allclose(found[[2, 3, 5, 7]], LOGITS["bfloat16.zarr"], rtol=0, atol=1e-5)


def test_inspection_finds_nothing(name: str):
    found = inspect(open_folder(GOLDEN / name))
    assert (found.damage, found.foreign, found.blocks) == ([], [], 2)
    sizes = {p: p.stat().st_size for p in (GOLDEN / name).rglob("*") if p.is_file()}
    assert found.bytes == sum(sizes.values())


def test_it_opens_where_it_was_copied_to(name: str, tmp_path: Path):
    there = tmp_path / "a folder elsewhere, ünïcode 層.zarr"
    shutil.copytree(GOLDEN / name, there)
    assert Store.open(there).fingerprint == FINGERPRINTS[name]
