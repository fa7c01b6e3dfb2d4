"""Somebody's own arrays are checked before anything is written."""

import numpy as np
import pytest
import torch

from tests.store.planted import planted
from trajdiag.errors import ConfigError, NonFiniteError
from trajdiag.store.from_arrays import from_arrays


def arguments(**changes):
    a = planted(examples=40)
    given = {"hidden": a.hidden, "logits": a.logits, "target": a.target}
    return given | {"gate_logit": a.gate_logit} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden": torch.zeros(40, 3)}, "hidden must be floating point with 3 dimensions"),
        ({"hidden": torch.zeros(40, 3, 2, dtype=torch.int64)}, "hidden must be floating point"),
        ({"logits": torch.zeros(40, 2, 5)}, r"logits .* must agree"),
        ({"gate_logit": torch.zeros(40, 2)}, r"gate_logit must be \[40, 3\]"),
        ({"target": torch.zeros(39, dtype=torch.int64)}, r"target must be \[40\], got \[39\]"),
        ({"target": torch.full((40,), 5)}, r"target must be class indices 0\.\.4, got 5\.\.5"),
        ({"target": torch.zeros(40)}, "target must be integers"),
        ({"split": ["train"] * 40}, "split must be one of fit, val, test, got train"),
        ({"class_names": ["a"]}, "class_names must be 5, got 1"),
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


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("array", ["hidden", "logits", "gate_logit"])
def test_a_value_that_is_not_finite_is_placed(tmp_path, array, value):
    given = arguments()
    given[array] = given[array].clone()
    given[array][17, 1] = value
    with pytest.raises(NonFiniteError, match=f"{array} of example 17 at loop 2"):
        from_arrays(tmp_path / "x.zarr", **given)
    assert not list(tmp_path.iterdir())


def test_doubles_beyond_float32_are_refused(tmp_path):
    given = arguments()
    given["logits"] = given["logits"].double()
    given["logits"][3, 2, 1] = 1e39
    with pytest.raises(NonFiniteError, match=r"logits of example 3 at loop 3 is .* beyond float32"):
        from_arrays(tmp_path / "x.zarr", **given)


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
