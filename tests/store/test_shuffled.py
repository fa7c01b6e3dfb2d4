"""A pass in random order brings every example once, with its own values, in one order a seed."""

import numpy as np
import pytest
import torch

from tests.store.planted import planted
from trajdiag.errors import StoreError, UnknownNameError
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.shuffled import read_ahead, shuffled_batches, shuffled_windows

pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.fixture
def arrays():
    return planted(examples=700)


@pytest.fixture
def store(arrays, tmp_path):
    return from_arrays(
        tmp_path / "x.zarr",
        arrays.hidden,
        arrays.logits,
        arrays.target,
        gate_logit=arrays.gate_logit,
        split=arrays.split,
    )


def order(store, **options):
    return np.concatenate([rows for rows, _ in shuffled_batches(store, "hidden", **options)])


@pytest.mark.parametrize("window", [1, 64, 128, 256, 8192])
@pytest.mark.parametrize("size", [1, 50, 1000])
def test_every_example_comes_once_with_its_values(arrays, store, window, size):
    seen = []
    batches = shuffled_batches(
        store, "hidden", "gate_logit", "target", size=size, seed=3, window=window
    )
    for rows, (hidden, gate, target) in batches:
        assert len(rows) <= size
        assert torch.equal(hidden, arrays.hidden[rows])
        assert torch.equal(gate, arrays.gate_logit[rows])
        assert torch.equal(target, arrays.target[rows])
        seen.append(rows)
    assert sorted(np.concatenate(seen).tolist()) == list(range(700))


def test_a_split_and_a_loop_are_passed_over_alone(arrays, store):
    for rows, (hidden,) in shuffled_batches(store, "hidden", size=32, seed=0, split="val", loop=2):
        assert set(arrays.split[rows]) == {"val"}
        assert torch.equal(hidden, arrays.hidden[rows, 1])
    assert len(order(store, size=32, seed=0, split="val")) == 175


def test_the_order_depends_on_seed_epoch_and_window_alone(store):
    first = order(store, size=32, seed=0, window=256)
    assert order(store, size=7, seed=0, window=256).tolist() == first.tolist()
    for other in ({"seed": 1}, {"epoch": 1}, {"window": 128}):
        options = {"size": 32, "seed": 0, "window": 256, **other}
        assert order(store, **options).tolist() != first.tolist()


def test_examples_far_apart_meet_in_a_window():
    windows = shuffled_windows(100_000, np.random.default_rng(0))
    for at, taken in windows[:-1]:
        assert len(at) in (8192, 8192 - 64 + 100_000 % 64)
        assert np.ptp(at) > 90_000
        assert sorted(taken.tolist()) == list(range(len(at)))
        assert np.abs(np.corrcoef(at[taken], np.arange(len(at)))[0, 1]) < 0.05


def test_one_item_is_read_while_the_one_before_is_used():
    began = []

    def read(item):
        began.append(item)
        return item * 10

    pairs = read_ahead(read, range(5))
    assert next(pairs) == (0, 0)
    assert set(began) <= {0, 1}
    assert list(pairs) == [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert list(read_ahead(read, [])) == []


def test_a_pass_may_be_left_midway(store):
    batches = shuffled_batches(store, "hidden", size=32, seed=0, window=64)
    next(batches)
    batches.close()


def test_what_goes_wrong_in_the_background_is_raised(store):
    (store.path / "hidden" / "c.1.0.0").unlink()
    with pytest.raises(StoreError, match=r"c\.1\.0\.0"):
        order(store, size=32, seed=0)
    with pytest.raises(UnknownNameError, match="hidden"):
        list(shuffled_batches(store, "states", size=32, seed=0))
