"""Files of somebody's own arrays: read by slices, never unpickled, and damage is said."""

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from trajdiag.errors import ConfigError
from trajdiag.store import arrays_file
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


@pytest.mark.parametrize("kind", KINDS[:3])
def test_more_than_an_archive_is_trusted_with_is_read_as_it_comes(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(arrays_file, "_TRUSTED_BYTES", 100)
    monkeypatch.setattr(arrays_file, "_READ_BYTES", 64)
    with open_arrays(write(tmp_path, kind)) as arrays:
        np.testing.assert_array_equal(arrays["hidden"][3:50], HIDDEN[3:50])


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
        pytest.raises(ConfigError, match="is damaged or not"),
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


def lying(shape="(60,)", descr="'<i8'"):
    """An .npy array of 480 bytes of zeros whose header says something else."""
    return header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}") + bytes(480)


def header(text, version=1):
    content = text if isinstance(text, bytes) else text.encode("latin1")
    size = len(content).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + content


def npz_with(path, content, name="hidden.npy"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)


@pytest.mark.parametrize("kind", ["npz", "folder"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lying("(-60, 4, 8)"), r"there can be no array \[-60, 4, 8\] of int64"),
        (lying("(-1,)"), r"no array \[-1\]"),
        (lying(f"({10**30},)"), "no array"),
        (lying(f"(0, {10**18}, {10**18})"), "no array"),
        (lying(f"({'1, ' * 70})"), "no array"),
        (lying("(True,)"), r"no array \[True\]"),
        (lying(descr="'<U0'"), "entries cannot be <U0"),
        (lying(descr="'|S0'"), "entries cannot be"),
        (lying(descr="('<i8', (1,))"), "entries cannot be"),
        (lying(descr="[]"), "entries cannot be"),
        (lying(descr="'(2,f4'"), "was never closed"),
        (lying(descr="'<q9'"), "not a valid dtype"),
        (header("{'descr': '''"), "EOF in multi-line string"),
        (header(np.random.default_rng(1).bytes(64)), "Cannot parse header: "),
        (header("-" * 9000 + "1"), "nested too deeply"),
        (header("'\\d'"), "not a dictionary"),
        (header("{}", 9), r"version 9\.0 of the format is not known"),
        (b"\x93NUMPY\2\0\xff\xff\xff\xff{}", "expected 4294967295 bytes got 2"),
        (lying(descr="'<U500000000'"), "120,000,000,000 bytes, and holds 480; write it again"),
        (lying(f"({10**15},)"), "8,000,000,000,000,000 bytes, and holds 480"),
        (lying(f"(60, 4, {10**12})"), "and holds 480"),
        (lying("(61,)"), r"should hold \[61\] of int64, 488 bytes, and holds 480"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,
)  # fmt: skip
def test_a_header_that_lies_is_one_line_that_names_the_array(tmp_path, kind, content, message):
    path = tmp_path / f"x.{kind}"
    if kind == "folder":
        path.mkdir()
        (path / "hidden.npy").write_bytes(content)
    else:
        npz_with(path, content)
    named = r"hidden\.npy" if kind == "folder" else r"hidden in .*x\.npz"
    with pytest.raises(ConfigError, match=f"{named} is damaged.*{message}") as caught:
        open_arrays(path).__enter__()
    assert len(str(caught.value).splitlines()) == 1


def test_sizes_that_an_archive_states_falsely_take_no_memory(tmp_path):
    path = tmp_path / "x.npz"
    npz_with(path, lying(f"({10**8},)"))
    content = bytearray(path.read_bytes())
    size = len(lying(f"({10**8},)")).to_bytes(4, "little")
    content = content.replace(size, (2**31 - 1).to_bytes(4, "little"))
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ConfigError, match=r"hidden in .* is damaged"), open_arrays(path) as arrays:
        assert arrays["hidden"].shape == (10**8,)
        arrays["hidden"][:]
    assert tracemalloc.get_traced_memory()[1] < 4e8
    tracemalloc.stop()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_is_read_and_its_damage_said(tmp_path, method):
    path = tmp_path / "x.npz"
    buffer = io.BytesIO()
    np.save(buffer, HIDDEN)
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("hidden.npy", buffer.getvalue())
    with open_arrays(path) as arrays:
        np.testing.assert_array_equal(arrays["hidden"][:], HIDDEN)
    content = bytearray(path.read_bytes())
    for at in (60, 1500):
        damaged = content[:at] + bytes(40) + content[at + 40 :]
        path.write_bytes(damaged)
        with (
            pytest.raises(ConfigError, match=r"hidden in .*x\.npz is damaged or not"),
            open_arrays(path) as arrays,
        ):
            arrays["hidden"][:]


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (6, 99, r"x\.npz cannot be read: zip file version 9\.9"),
        (10, 97, r"hidden in .*x\.npz cannot be read: That compression method is not supported"),
        (45, 127, r"hidden in .*x\.npz (cannot be read|is damaged)"),
    ],
)
def test_a_zip_directory_that_asks_for_more_is_said(tmp_path, at, value, message):
    path = tmp_path / "x.npz"
    npz_with(path, lying())
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + at] = value
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        open_arrays(path).__enter__()


def safetensors_with(path, text, size):
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode() + bytes(size))


def test_a_tensor_of_a_dtype_that_torch_has_not_is_named(tmp_path):
    path = tmp_path / "x.safetensors"
    tensor = {"dtype": "F6_E2M3", "shape": [4, 4], "data_offsets": [0, 12]}
    safetensors_with(path, json.dumps({"hidden": tensor}), 12)
    with (
        pytest.raises(ConfigError, match=r"hidden in .*x\.safetensors is .* not of a dtype that"),
        open_arrays(path) as arrays,
    ):
        arrays["hidden"][:]


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_an_array_that_is_there_twice_is_refused(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    if kind == "npz":
        with zipfile.ZipFile(path, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
            for _ in range(2):
                archive.writestr("hidden.npy", lying())
    else:
        tensor = '"hidden": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}'
        safetensors_with(path, f"{{{tensor}, {tensor}}}", 12)
    with pytest.raises(ConfigError, match="holds hidden more than once; write it with each"):
        open_arrays(path).__enter__()
