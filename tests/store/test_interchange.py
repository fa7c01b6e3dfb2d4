"""Other people's software opens a store: plain Zarr and xarray read every array, with the same
numbers, types and names of dimensions."""

import json

import numpy as np
import pytest
import torch
import xarray
import zarr

from tests.extraction.test_documents import Notes
from tests.extraction.test_questions import Quiz
from tests.language_models import loaded, tiny_ouro
from tests.looped import Letters, Spiral
from tests.store.planted import planted
from trajdiag.errors import StoreError
from trajdiag.extraction import extract
from trajdiag.store import schema
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store

MAKERS = {
    "arrays": lambda folder: _of_arrays(folder),
    "a task": lambda folder: extract(Spiral(), Letters(), cache_dir=folder),
    "questions": lambda folder: extract(
        loaded(tiny_ouro(folder / "tiny"), torch.bfloat16), Quiz(), cache_dir=folder
    ),
    "text": lambda folder: extract(
        loaded(tiny_ouro(folder / "tiny")), Notes(), cache_dir=folder, logits="topk:5"
    ),
}
PLANTED = planted(examples=300, dtype=torch.bfloat16)
TEXTS = [f"ä {i} \N{GRINNING FACE}" * (i % 3) for i in range(300)]


def _of_arrays(folder):
    a = PLANTED
    # what a fill value of 0 must not hide
    a.hidden[:9], a.logits[:9], a.gate_logit[:9], a.target[:9], a.difficulty[:9] = 0, 0, 0, 0, 0
    path = folder / "my störe.zarr"
    return from_arrays(
        path,
        *(a.hidden, a.logits, a.target, a.gate_logit, a.difficulty, a.group, a.split),
        input=TEXTS,
        covariates={"ones": np.arange(300) % 2},
    )


@pytest.fixture(scope="module", params=MAKERS)
def store(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:  # several blocks, the last of them padded
        patch.setattr(schema, "BLOCK_EXAMPLES", 64)
        patch.setattr(schema, "COLUMN_EXAMPLES", 128)
        yield MAKERS[request.param](tmp_path_factory.mktemp("interchange"))


def stored(store, name):
    """An array as its bytes on disk mean, read by trajdiag."""
    if store.torch(name, rows=np.arange(0)).dtype == torch.bfloat16:
        return store.torch(name).view(torch.uint16).numpy()
    return store.numpy(name)


def is_text(name):
    return name in ("id", "split", "input")


def groups(store):
    """The nested groups, and the root as None."""
    return [None, *sorted({name.split("/")[0] for name in store.arrays if "/" in name})]


def test_plain_zarr_reads_every_array(store):
    group = zarr.open_group(store.path, mode="r")
    for name in store.arrays:
        array = group[name]
        assert isinstance(array, zarr.Array)
        assert array.metadata.dimension_names[0] == "example"
        if is_text(name):
            assert np.asarray(array[:]).tolist() == store.numpy(name).tolist()
        else:
            assert array.dtype == stored(store, name).dtype
            np.testing.assert_array_equal(array[:], stored(store, name), err_msg=name)


def test_zarr_finds_the_arrays_that_the_store_names(store):
    found = {
        name
        for name, member in zarr.open_group(store.path, mode="r").members(max_depth=None)
        if isinstance(member, zarr.Array)
    }
    assert found == set(store.arrays)


def test_xarray_reads_every_array_of_every_group_unmasked(store):
    seen = set()
    for group in groups(store):
        with xarray.open_zarr(store.path, group=group, consolidated=False) as dataset:
            for name, variable in dataset.variables.items():
                inside = name if group is None else f"{group}/{name}"
                seen.add(inside)
                assert variable.dims[0] == "example"
                if is_text(inside):
                    assert variable.values.tolist() == store.numpy(inside).tolist()
                else:
                    expected = stored(store, inside)
                    assert variable.dtype == expected.dtype
                    np.testing.assert_array_equal(variable.values, expected, err_msg=inside)
    assert seen == set(store.arrays)


def test_xarray_names_the_dimensions(store):
    with xarray.open_zarr(store.path, consolidated=False) as dataset:
        assert dataset["hidden"].dims == ("example", "loop", "d_model")
        assert dataset.sizes["example"] == len(store)
        assert dataset.sizes["loop"] == store.loops
        assert dataset["split"].dims == ("example",)
        assert dataset.attrs["trajdiag"]["fingerprint"] == store.fingerprint


def test_xarray_opens_all_groups_as_one_tree(store):
    with xarray.open_datatree(store.path, engine="zarr", consolidated=False) as tree:
        assert {node.name for node in tree.children.values()} == {*groups(store), "journal"} - {
            None
        }
        signal = tree["signal/entropy"]
        assert signal.dims == ("example", "loop")
        np.testing.assert_array_equal(signal.values, store.numpy("signal/entropy"))


def test_the_numbers_are_those_that_were_given(tmp_path):
    group = zarr.open_group(_of_arrays(tmp_path).path, mode="r")
    a = PLANTED
    given = {
        "hidden": a.hidden.view(torch.uint16).numpy(),
        "logits": a.logits.numpy(),
        "gate_logit": a.gate_logit.numpy(),
        "target": a.target.numpy(),
        "difficulty": a.difficulty,
        "group": a.group,
        "covariate/ones": np.arange(300) % 2,
    }
    for name, values in given.items():
        np.testing.assert_array_equal(group[name][:], values, err_msg=name)
    assert np.asarray(group["input"][:]).tolist() == TEXTS
    bits = group["hidden"][:]
    back = (bits.astype(np.uint32) << 16).view(np.float32)  # as cache/README.md says of bfloat16
    np.testing.assert_array_equal(back, a.hidden.float().numpy())


def test_a_newer_schema_version_is_refused_with_what_to_do(tmp_path):
    path = _of_arrays(tmp_path).path
    newer = {}
    for file in (path / "zarr.json", path / "journal" / "zarr.json"):
        newer[file] = json.loads(file.read_text(encoding="utf-8"))
        newer[file]["attributes"]["trajdiag"] |= {"schema": 2, "something": "new"}
        file.write_text(json.dumps(newer[file]), encoding="utf-8")
    refused = r"schema version 2, this trajdiag reads 1; install a newer trajdiag"
    with pytest.raises(StoreError, match=refused):
        Store.open(path)
    with pytest.raises(StoreError, match=refused):
        _of_arrays(tmp_path)
    for file, metadata in newer.items():
        assert json.loads(file.read_text(encoding="utf-8")) == metadata
