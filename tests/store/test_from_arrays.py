"""Somebody's own arrays are checked before anything is written."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import zarr

from tests.store.planted import planted
from trajdiag.errors import (
    ConfigError,
    NonFiniteError,
    OutOfSpaceError,
    StoreError,
    UnknownNameError,
)
from trajdiag.store import given_loops
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import open_store


def arguments(**changes):
    a = planted(examples=40)
    given = {"hidden": a.hidden, "logits": a.logits, "target": a.target}
    return given | {"gate_logit": a.gate_logit} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden": torch.zeros(40, 3)}, r"hidden must be \[example, loop, d_model\], got 2"),
        ({"hidden": torch.zeros(40, 3, 7, 2)}, "of several positions give the one at which"),
        ({"hidden": torch.zeros(40, 3, 2, dtype=torch.int64)},
         "hidden must be floating point, got int64"),
        ({"hidden": np.zeros((40, 3, 2), np.uint16)}, "bfloat16 comes as such in safetensors"),
        ({"hidden": np.zeros((40, 3, 2), "V2")}, "bfloat16 comes as such in safetensors"),
        ({"hidden": np.zeros((40, 3, 2), complex)}, "hidden must be floating point, got complex"),
        ({"hidden": np.ma.masked_equal(np.arange(40 * 3 * 2.0).reshape(40, 3, 2), 7.0)},
         "hidden masks 1 of its values, and a store keeps no mask"),
        ({"target": np.ma.masked_less(np.arange(40) % 5, 1)}, "target masks 8 of its values"),
        ({"hidden": [[1.0], [1.0, 2.0]]}, "hidden must be an array of numbers"),
        ({"hidden": torch.zeros(40, 3, 0)}, r"hidden \[40, 3, 0\] holds nothing"),
        ({"logits": torch.zeros(40, 2, 5)},
         r"number of loops: hidden .* \[40, 3, 8\], logits .* \[40, 2, 5\]"),
        ({"hidden": torch.zeros(40, 4, 8), "gate_logit": None},
         r"leave out the state before the first loop, hidden\[:, 1:\]"),
        ({"gate_logit": torch.zeros(40, 2)}, r"number of loops: .* gate_logit .* \[40, 2\]"),
        ({"target": torch.zeros(39, dtype=torch.int64)},
         r"hidden \[40, 3, 8\] and target \[39\] disagree: 40 and 39 examples"),
        ({"target": torch.zeros(40, 5, dtype=torch.int64)}, "of one-hot rows give the argmax"),
        ({"target": torch.full((40,), 5)},
         r"target must be class indices 0\.\.4 .*, got 5\.\.5, outside in 40 of 40"),
        ({"target": np.arange(40) % 5 + 1}, "they seem to count from 1, give target - 1"),
        ({"target": np.arange(40) % 6 - 1}, "leave out the examples that have no right class"),
        ({"target": torch.zeros(40)}, "target must be integers"),
        ({"split": ["train"] * 40}, r"split must be one of fit, val, test .*, got train"),
        ({"split": np.arange(40)}, "split must be one of"),
        ({"difficulty": ["hard"] * 40}, "difficulty must be numbers, got texts"),
        ({"difficulty": np.zeros((40, 1))}, r"difficulty \[40, 1\] must have an entry an example"),
        ({"id": ["a", "b", "b", "a"] * 10}, "id 'a' is given more than once, 38 of 40 repeat"),
        ({"id": np.full(40, 0.5)}, "id must be text or integers, got float64"),
        ({"id": np.full(40, b"\xff")}, "id must be text in UTF-8"),
        ({"group": np.full(40, 0.5)}, "group must be integers, got float64"),
        ({"group": np.full(40, 2**63, np.uint64)}, r"group must be integers below 2\^63"),
        ({"class_names": ["a"]}, "class_names must be 5 texts, got 1"),
        ({"class_names": 5}, "class_names must be 5 texts, got 5"),
        ({"class_names": [*"abcd", ["e"]]}, r"class_names must be 5 texts, got \['e'\]"),
        ({"class_names": [*"abcd", None]}, "class_names must be 5 texts, got None"),
        ({"class_names": [*"abcd", 5]}, "class_names must be 5 texts, got 5"),
        ({"group": [1, "1"] * 20},
         r"group must be all texts or all numbers, got '1' \(str\) for example 1, 1 \(int\) for"),
        ({"group": np.array(["a", None] * 20, object)},
         r"group must be all texts or all numbers, got None \(NoneType\) for example 1"),
        ({"input": ["a"] * 39 + [float("nan")]}, r"got nan \(float\) for example 39"),
        ({"id": [*range(39), "x"]}, "id must be all texts or all numbers"),
        ({"split": ["fit", 1] * 20}, "split must be all texts or all numbers"),
        ({"difficulty": [0.5, None] * 20}, "difficulty must be all texts or all numbers"),
        ({"group": [2**70] * 40}, "group must be numbers that 64 bits hold"),
        ({"class_names": [*"abcd", "\ud800"]}, r"class_names must be text, got '\\ud800'"),
        ({"covariates": [np.zeros(40)]}, "covariates must be arrays by name, got list"),
        ({"covariates": {"zarr.json": np.zeros(40)}}, r"and not zarr\.json; got 'zarr\.json'"),
        ({"class_names": "abcde"}, "class_names must be 5 texts, got 'abcde'"),
        ({"class_names": torch.ones(5, requires_grad=True)}, "class_names must be 5 texts, got 1"),
        ({"class_names": [*"abcd", "e\0"]}, r"must be text, got 'e\\x00' for class 4"),
        ({"class_names": [*"abcd", "a"]}, "class_names must tell .*, and 'a' names 2 of them"),
        ({"group": ["a\0", "a"] * 20}, r"group of example 0 holds a NUL character.*: 'a\\x00'"),
        ({"id": [*map(str, range(39)), "3\0"]}, "id of example 39 holds a NUL character"),
        ({"input": ["a"] * 5 + ["a\0b"] * 35}, "input of example 5 holds a NUL character"),
        ({"group": np.array([b"a\0b", b"a"] * 20)}, "group of example 0 holds a NUL character"),
        ({"group": np.array(["a\0", "a"] * 20, np.dtypes.StringDType())}, "group of example 0 ho"),
        ({"difficulty": [1e308, -1e308] * 20}, "difficulty must be of a size .* for example 0"),
        ({"hidden": None}, "hidden must be"),
        ({"logits": None}, "logits must be"),
        ({"covariates": [1.0]}, "covariates must be arrays by name, got list"),
        ({"source": 5}, "source must be a text or None, got 5"),
        ({"command": np.ones(2)}, "command must be a text or None, got array"),
        ({"seed": None}, "seed must be a whole number, got None"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
        ({"seed": -1}, "seed must be a whole number, at least 0, got -1"),
        ({"seed": -1, "split": ["fit"] * 40}, "seed must be a whole number"),
        ({"hidden": torch.zeros(40, 6, 32), "logits": torch.zeros(40, 6, 5),
          "gate_logit": torch.zeros(40, 5)},
         r"hidden and logits agree on 6, so that gate_logit must be \[40, 6\]"),
        ({"hidden": torch.zeros(40, 1, 2), "logits": torch.zeros(40, 1, 5), "gate_logit": None},
         "at least 2 loops"),
        ({"logits": torch.zeros(40, 3, 1), "target": torch.zeros(40, dtype=torch.int64)},
         "at least 2 classes"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_named(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        from_arrays(tmp_path / "x.zarr", **arguments(**changes))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("overwrite", ["no", "false", 1, None, np.ones(2), torch.ones(2)])
def test_nothing_is_removed_for_what_is_no_truth_value(tmp_path, overwrite):
    made = from_arrays(tmp_path / "x.zarr", **arguments())
    with pytest.raises(ConfigError, match="overwrite must be true or false, got") as caught:
        from_arrays(tmp_path / "x.zarr", **arguments(seed=1), overwrite=overwrite)
    assert "\n" not in str(caught.value)
    assert open_store(tmp_path / "x.zarr").fingerprint == made.fingerprint


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("array", ["hidden", "logits", "gate_logit"])
def test_a_value_that_is_not_finite_is_placed_and_its_examples_counted(tmp_path, array, value):
    given = arguments()
    given[array] = given[array].clone()
    given[array][17, 1] = value
    given[array][30:33] = value
    what = "NaN" if np.isnan(value) else "infinite"
    expected = f"{array} of example 17 at loop 2 is {what}; so it is in 4 of 40 examples"
    with pytest.raises(NonFiniteError, match=expected):
        from_arrays(tmp_path / "x.zarr", **given)
    assert not list(tmp_path.iterdir())


def test_doubles_beyond_float32_are_refused(tmp_path):
    given = arguments()
    given["logits"] = given["logits"].double()
    given["logits"][3, 2, 1] = 1e39
    with pytest.raises(NonFiniteError, match="logits of example 3 at loop 3 is beyond float32"):
        from_arrays(tmp_path / "x.zarr", **given)


@pytest.mark.skipif(np.finfo(np.longdouble).max <= 1e308, reason="no wider floats here")
def test_numbers_beyond_double_are_refused(tmp_path):
    difficulty = np.full(40, np.longdouble("1e400"))
    with pytest.raises(NonFiniteError, match="difficulty of example 0 is beyond float64; so it is"):
        from_arrays(tmp_path / "x.zarr", **arguments(difficulty=difficulty))
    hidden = np.full((40, 3, 8), np.longdouble("1e400"))
    with pytest.raises(NonFiniteError, match="hidden of example 0 at loop 1 is infinite"):
        from_arrays(tmp_path / "x.zarr", **arguments(hidden=hidden))


def test_large_finite_values_pass(tmp_path):
    given = arguments()
    given["hidden"] = torch.full_like(given["hidden"], 3e38)
    assert len(from_arrays(tmp_path / "x.zarr", **given)) == 40


def test_splits_are_drawn_by_group_in_the_stated_shares(tmp_path):
    a = planted(examples=3000)
    group = np.arange(3000) // 3
    store = from_arrays(tmp_path / "x.zarr", a.hidden, a.logits, a.target, group=group)
    assert (store.split.reshape(1000, 3) == store.split.reshape(1000, 3)[:, :1]).all()
    assert [len(store.rows(split)) for split in ("fit", "val", "test")] == [1500, 600, 900]


def test_splits_depend_on_the_seed_alone(tmp_path):
    given = arguments()
    first, same, other = (
        from_arrays(tmp_path / f"{i}.zarr", **given, seed=seed) for i, seed in enumerate((0, 0, 1))
    )
    assert first.split.tolist() == same.split.tolist() != other.split.tolist()


def test_numpy_arrays_without_a_gate_are_enough(tmp_path):
    a = planted(examples=40)
    store = from_arrays(
        tmp_path / "x.zarr", a.hidden.numpy(), a.logits.double().numpy(), a.target.tolist()
    )
    assert not store.has_gate
    assert store.inputs is None
    assert store.group.tolist() == list(range(40))
    np.testing.assert_array_equal(store.numpy("hidden"), a.hidden.numpy())


@pytest.mark.parametrize(
    ("swapped", "axes"),
    [
        ({"hidden": (1, 0, 2)}, r"hidden \[3, 40, 8\] seems to be \[loop, example, d_model\]"),
        ({"hidden": (1, 2, 0)}, r"hidden \[3, 8, 40\] seems to be \[loop, d_model, example\]"),
        ({"hidden": (0, 2, 1)}, r"hidden \[40, 8, 3\] seems to be \[example, d_model, loop\]"),
        ({"logits": (0, 2, 1)}, r"logits \[40, 5, 3\] seems to be \[example, class, loop\]"),
        ({"logits": (0, 2, 1), "hidden": (0, 2, 1)}, r"seems to be \[example, d_model, loop\]"),
        ({"gate_logit": (1, 0)}, r"gate_logit \[3, 40\] seems to be \[loop, example\]"),
    ],
)
@pytest.mark.parametrize("with_gate", [True, False])
def test_axes_in_another_order_are_recognised_and_the_message_puts_them_right(
    tmp_path, swapped, axes, with_gate
):
    right = arguments()
    wrong = right | {name: right[name].permute(order) for name, order in swapped.items()}
    if not with_gate and "gate_logit" not in swapped:
        wrong["gate_logit"] = None
    with pytest.raises(ConfigError, match=axes) as caught:
        from_arrays(tmp_path / "x.zarr", **wrong)
    message = str(caught.value)
    name = message.split()[0]
    order = [int(n) for n in re.search(r"transpose\((.*)\) makes", message)[1].split(", ")]
    assert torch.equal(wrong[name].permute(order), right[name])


def test_minus_infinity_for_missing_classes_is_told_what_to_be_instead(tmp_path):
    given = arguments()
    given["logits"][::2, :, 4] = -torch.inf
    with pytest.raises(
        NonFiniteError, match=r"in 20 of 40 examples .* fewer classes, give -1e\+30"
    ):
        from_arrays(tmp_path / "x.zarr", **given)
    given["logits"][::2, :, 4] = -1e30
    assert len(from_arrays(tmp_path / "x.zarr", **given)) == 40


def test_a_column_that_is_not_finite_is_placed_and_its_examples_counted(tmp_path):
    ones = np.ones(40)
    ones[[5, 9]] = np.nan
    with pytest.raises(
        NonFiniteError, match="ones of example 5 is not finite; so it is in 2 of 40"
    ):
        from_arrays(tmp_path / "x.zarr", **arguments(covariates={"ones": ones}))


def test_texts_may_be_bytes_groups_names_and_splits_numbers(tmp_path):
    named = np.array(["ä", "b"] * 20)
    store = from_arrays(
        tmp_path / "x.zarr",
        **arguments(
            group=named, split=np.arange(40) % 3, id=np.arange(40), input=np.strings.encode(named)
        ),
    )
    assert store.group.tolist() == [1, 0] * 20
    assert store.split[:3].tolist() == ["fit", "val", "test"]
    assert store.ids.tolist() == [str(i) for i in range(40)]
    assert store.inputs is not None and store.inputs.tolist() == named.tolist()


def test_objects_of_one_kind_are_what_they_are(tmp_path):
    store = from_arrays(
        tmp_path / "x.zarr",
        **arguments(
            group=np.array([7, 8] * 20, object),
            input=np.array(["ä".encode(), b"b"] * 20, object),
            difficulty=np.array([1, 0.5] * 20, object),
        ),
    )
    assert store.group[:2].tolist() == [7, 8]
    assert store.inputs is not None and store.inputs[:2].tolist() == ["ä", "b"]
    assert store.difficulty[:2].tolist() == [1, 0.5]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"hidden": torch.ones(40, 3, 8, dtype=torch.float64)},
         "hidden comes as float64 and is stored as float32"),
        ({"logits": torch.ones(40, 3, 5, dtype=torch.float16)},
         "logits comes as float16 and is stored as float32"),
        ({"split": ["fit", "val"] * 20},
         "no example is of split test: score and report take numbers from it"),
        ({"gate_logit": None, "gate_probability": torch.full((40, 3), 0.2)},
         "gate_probability is stored as its logit, float32"),
    ],
)  # fmt: skip
def test_what_is_stored_otherwise_or_cannot_be_done_is_said(tmp_path, changes, line):
    said = []
    from_arrays(tmp_path / "x.zarr", **arguments(**changes), progress=said.append)
    assert line in said


def test_nothing_is_suspected_of_arrays_in_order(tmp_path):
    said, a = [], planted(examples=40)
    from_arrays(tmp_path / "x.zarr", **arguments(split=a.split), progress=said.append)
    assert [line.split()[0] for line in said] == ["checking"] * 3 + ["store"]


def test_the_fingerprint_does_not_depend_on_what_holds_the_numbers(tmp_path):
    given = arguments()
    expected = from_arrays(tmp_path / "tensors.zarr", **given).fingerprint
    big_endian = given["hidden"].numpy().astype(">f4")[::-1].copy()[::-1]
    np.save(tmp_path / "logits.npy", given["logits"].numpy())
    mapped = np.load(tmp_path / "logits.npy", mmap_mode="r")
    gate = zarr.create_array(tmp_path / "gate.zarr", data=given["gate_logit"].numpy())
    store = from_arrays(
        tmp_path / "others.zarr", big_endian, mapped, given["target"].tolist(), gate
    )
    assert store.fingerprint == expected


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1, 2)])
def test_backward_views_are_arrays_as_any(tmp_path, axes):
    given = {name: np.asarray(values) for name, values in arguments().items()}
    target = given.pop("target")[::-1]
    given = {name: np.flip(values, axes[: values.ndim]) for name, values in given.items()}
    views = from_arrays(tmp_path / "views.zarr", **given, target=target)
    copies = {name: values.copy() for name, values in given.items()}
    expected = from_arrays(tmp_path / "copies.zarr", **copies, target=target.copy())
    assert views.fingerprint == expected.fingerprint


def test_a_field_of_records_is_an_array_as_any(tmp_path):
    given = arguments()
    records = np.zeros((40, 3, 8), [("hidden", "f4"), ("flag", "i1")])
    records["hidden"] = given["hidden"].numpy()
    store = from_arrays(tmp_path / "x.zarr", **given | {"hidden": records["hidden"]})
    np.testing.assert_array_equal(store.numpy("hidden"), given["hidden"].numpy())


def test_arrays_are_read_a_few_examples_at_a_time(tmp_path, small_blocks, monkeypatch):
    monkeypatch.setattr(given_loops, "_PIECE_BYTES", 64 * 3 * 8 * 4)
    a = planted(examples=300)

    class Counting:
        shape, most = a.hidden.shape, 0

        def __getitem__(self, at):
            self.most = max(self.most, at.stop - at.start)
            return a.hidden[at]

    hidden = Counting()
    store = from_arrays(tmp_path / "x.zarr", hidden, a.logits, a.target)
    assert hidden.most == 64
    assert torch.equal(store.torch("hidden"), a.hidden)


def test_a_full_disk_is_noticed_before_anything_is_written(tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(OutOfSpaceError, match="0 MiB are free; free some space, or choose"):
        from_arrays(tmp_path / "x.zarr", **arguments())
    assert not list(tmp_path.iterdir())


def test_other_arrays_under_the_same_name_are_told_apart_in_a_line(tmp_path):
    given = arguments()
    from_arrays(tmp_path / "x.zarr", **given)
    digits = "[0-9a-f]{12}"
    for changes, what in (
        ({"hidden": given["hidden"] + 1}, "hidden, logits or gate_logit"),
        ({"difficulty": np.ones(40)}, "target or another value by example"),
    ):
        with pytest.raises(
            ConfigError, match=rf"made of other arrays: {what} \({digits} -> {digits}\); choose"
        ):
            from_arrays(tmp_path / "x.zarr", **given | changes)


def test_what_made_it_is_kept(tmp_path):
    store = from_arrays(
        tmp_path / "x.zarr", **arguments(), source="mine.npz", command="trajdiag import mine.npz"
    )
    assert store.record.model["source"] == "mine.npz"
    assert store.record.commands == ["trajdiag import mine.npz"]


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        (None, ConfigError, "at a folder's path or a URL, got NoneType"),
        (b"x.zarr", ConfigError, "at a folder's path or a URL, got bytes"),
        ("", ConfigError, "must end in its name, as NAME.zarr, .*got ''"),
        (".", ConfigError, "must end in its name"),
        ("..", ConfigError, "must end in its name"),
        ("/", ConfigError, "must end in its name"),
        (".zarr", ConfigError, "must end in its name"),
        ("nul\0.zarr", ConfigError, "must end in its name"),
        ("n" * 300, ConfigError, "of at most 240 bytes"),
        ("\ud800.zarr", ConfigError, r"got '\\ud800\.zarr'"),
        ("file", StoreError, "file is a file, not a store"),
        ("file/x.zarr", StoreError, r"cannot write file/x\.zarr: Not a directory"),
        ("foreign", StoreError, "foreign exists and is not a store"),
        ("loop.zarr", StoreError, r"cannot read loop\.zarr: Too many levels of symbolic links"),
    ],
)
def test_where_no_store_can_be_is_said_in_a_line(tmp_path, monkeypatch, path, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").touch()
    (tmp_path / "loop.zarr").symlink_to("loop.zarr")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(error, match=message) as caught:
        from_arrays(path, **arguments())
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_name_of_as_many_bytes_as_are_allowed_can_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    longest = "n" * 235 + ".zarr"
    assert len(from_arrays(longest, **arguments())) == len(open_store(longest)) == 40


@pytest.mark.parametrize("path", ["x.zarr", "x.zarr/", "x", "a/b/x.zarr", Path("x.zarr"), "empty"])
def test_a_place_may_be_spelt_in_many_ways(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert from_arrays(path, **arguments()).name == ("empty" if path == "empty" else "x")
    assert len(open_store(path)) == 40


def test_what_is_no_place_of_a_store_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for other in (5, b"x.zarr", ["x"]):
        with pytest.raises(ConfigError, match=f"a path or a URL, got {type(other).__name__}"):
            open_store(other)
    with pytest.raises(UnknownNameError, match="unknown store 'nnn"):
        open_store("n" * 300)
