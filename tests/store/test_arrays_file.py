"""Files of somebody's own arrays: read by slices, never unpickled, and damage is said."""

import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from trajdiag.errors import ConfigError
from trajdiag.store.arrays_file import open_arrays

HIDDEN = np.random.default_rng(0).normal(size=(50, 3, 4)).astype(np.float32)
TEXTS = np.array(["ä b", "c"] * 25)


def write(folder, kind):
    """The same two arrays in a file of each kind."""
    path = folder / f"my rün{'' if kind == 'folder' else '.' + kind.split()[0]}"
    if kind == "npz":
        np.savez(path, hidden=HIDDEN, **{"covariate/ones": np.ones(50)})
    elif kind == "npz compressed":
        np.savez_compressed(path, hidden=HIDDEN, **{"covariate/ones": np.ones(50)})
    elif kind == "npz by column":
        np.savez(path, hidden=np.asfortranarray(HIDDEN), **{"covariate/ones": np.ones(50)})
    elif kind == "folder":
        (path / "covariate").mkdir(parents=True)
        np.save(path / "hidden.npy", HIDDEN)
        np.save(path / "covariate" / "ones.npy", np.ones(50))
    else:
        save_file({"hidden": torch.tensor(HIDDEN), "covariate/ones": torch.ones(50)}, path)
    return path


KINDS = ["npz", "npz compressed", "npz by column", "folder", "safetensors"]


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_named_shaped_and_sliced(tmp_path, kind):
    with open_arrays(write(tmp_path, kind)) as arrays:
        assert set(arrays) == {"hidden", "covariate/ones"}
        hidden = arrays["hidden"]
        assert tuple(hidden.shape) == (50, 3, 4)
        # forward, back, overlapping, at the end, and beyond it
        for start, stop in ((0, 7), (20, 30), (3, 9), (45, 50), (0, 50), (48, 60)):
            np.testing.assert_array_equal(np.asarray(hidden[start:stop]), HIDDEN[start:stop])
        assert np.asarray(arrays["covariate/ones"][:]).tolist() == [1.0] * 50


@pytest.mark.parametrize("kind", ["npz", "folder"])
def test_texts_and_empty_arrays_are_read(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    given = {"id": TEXTS, "empty": np.zeros((0, 3))}
    if kind == "folder":
        path.mkdir()
        for name, values in given.items():
            np.save(path / name, values)
    else:
        np.savez(path, **given)
    with open_arrays(path) as arrays:
        assert arrays["id"][:].tolist() == TEXTS.tolist()
        assert arrays["empty"].shape == (0, 3)


def test_bfloat16_stays_bfloat16(tmp_path):
    given = torch.tensor(HIDDEN).bfloat16()
    save_file({"hidden": given}, tmp_path / "x.safetensors")
    with open_arrays(tmp_path / "x.safetensors") as arrays:
        assert torch.equal(arrays["hidden"][10:20], given[10:20])


@pytest.mark.parametrize("kind", ["npz", "folder"])
def test_python_objects_are_refused_unread(tmp_path, kind):
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("sprung").touch, ())

    path = tmp_path / f"x.{kind}"
    trap = np.array([Trap()], dtype=object)
    if kind == "folder":
        path.mkdir()
        np.save(path / "id", trap, allow_pickle=True)
    else:
        np.savez(path, id=trap, allow_pickle=True)
    with pytest.raises(ConfigError, match="holds Python objects, which are never read; save"):
        open_arrays(path).__enter__()
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("kind", ["npz", "npz compressed", "safetensors"])
@pytest.mark.parametrize("keep", [0, 3, 40, 300, -1])
def test_a_file_that_is_cut_short_is_damaged(tmp_path, kind, keep):
    path = write(tmp_path, kind)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ConfigError, match="is damaged or not what its name says"):
        open_arrays(path).__enter__()


@pytest.mark.parametrize("kind", ["npz", "npz compressed"])
def test_a_byte_that_changed_in_an_npz_is_noticed_when_all_is_read(tmp_path, kind):
    path = write(tmp_path, kind)
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)
    with (
        pytest.raises(ConfigError, match="is damaged or not what its name says"),
        open_arrays(path) as arrays,
    ):
        for start in range(0, 50, 10):
            arrays["hidden"][start : start + 10]


@pytest.mark.parametrize("keep", [0, 5, 100, 200])
def test_an_array_of_a_folder_that_is_cut_short_is_damaged(tmp_path, keep):
    file = write(tmp_path, "folder") / "hidden.npy"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ConfigError, match=r"hidden\.npy is damaged"):
        open_arrays(file.parent).__enter__()


def test_what_is_no_array_in_an_npz_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("README", "hello")
    with pytest.raises(ConfigError, match=r"README in .*x\.npz is damaged or not an \.npy array"):
        open_arrays(tmp_path / "x.npz").__enter__()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hidden.npy", "put hidden.npy, logits.npy and target.npy in a folder and name that"),
        ("run.pt", "pickles are never read; write it with safetensors.torch.save_file"),
        ("run.h5", "write it with numpy.savez or safetensors.torch.save_file"),
    ],
)
def test_a_file_of_another_kind_is_told_what_to_become(tmp_path, name, message):
    (tmp_path / name).write_bytes(b"content")
    with pytest.raises(ConfigError, match=message):
        open_arrays(tmp_path / name).__enter__()


def test_a_missing_file_an_empty_folder_and_a_store_are_told_apart(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "zarr.json").touch()
    for name, message in (
        ("none.npz", r"no file .*none\.npz; import takes an \.npz, a \.safetensors, or a folder"),
        ("empty", r"empty holds no arrays; wanted an \.npz"),
        ("store", "store is a Zarr store; if it is trajdiag's, use it as it is"),
    ):
        with pytest.raises(ConfigError, match=message):
            open_arrays(tmp_path / name).__enter__()
