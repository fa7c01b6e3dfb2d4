"""What a rule sees: nothing of later loops, and ranks that bear anything."""

import numpy as np
import pytest

from tests.store.planted import planted
from trajdiag.bound.features import WIDEST, Features, most_examples
from trajdiag.bound.sample import folds, some_groups
from trajdiag.store.from_arrays import from_arrays

EXAMPLES = 120


def made(tmp_path, name="store", **changes):
    arrays = vars(planted(examples=EXAMPLES, loops=4)) | changes
    return from_arrays(tmp_path / f"{name}.zarr", **arrays)


def read(store):
    rows = store.rows("fit")
    features = Features(store, rows, np.random.default_rng(0))
    return features, features.read(rows)


def test_features_of_a_loop_do_not_change_with_what_later_loops_bring(tmp_path):
    store = made(tmp_path)
    arrays = planted(examples=EXAMPLES, loops=4)
    arrays.hidden[-1, 2:] *= -3  # an example that features are not standardised by
    arrays.logits[-1, 2:] *= -3
    other = made(tmp_path, "other", **vars(arrays))
    features, changed = (
        Features(s, s.rows("fit"), np.random.default_rng(0)) for s in (store, other)
    )
    last = store.rows()[-1:]
    before, after = features.read(last), changed.read(last)
    np.testing.assert_array_equal(before[:2], after[:2])
    assert np.abs(before[2] - after[2]).max() > 0


def test_every_signal_and_the_model_s_own_gate_are_there_with_their_changes(tmp_path):
    store = made(tmp_path)
    features, found = read(store)
    assert features.signals == 2 * (len(store.signal_names) + 2)
    assert found.shape == (3, len(store.rows("fit")), features.apart + store.d_model)
    half = features.signals // 2
    np.testing.assert_allclose(
        found[1, :, half : 2 * half], found[1, :, :half] - found[0, :, :half]
    )


def test_what_the_first_state_and_the_states_before_told_is_there(tmp_path):
    """The components are linear in the states, so regressing them on the states leaves nothing."""
    features, found = read(made(tmp_path))
    past, states = found[:, :, features.signals : features.apart], found[:, :, features.apart :]
    first, before = past[:, :, :8], past[:, :, 8:]
    assert not past[0].any()
    for part, shown in ((first, states[0]), (before, states[:2].mean(0))):
        found_by, residual, *_ = np.linalg.lstsq(shown, part[2], rcond=None)
        assert np.all(residual < 1e-6 * np.square(part[2]).sum(0))
        assert np.linalg.matrix_rank(found_by) == 8
    np.testing.assert_array_equal(first[1], first[2])


def test_ranks_are_in_the_order_of_the_signal(tmp_path):
    store = made(tmp_path)
    _, found = read(store)
    column = store.signal_names.index("entropy")
    order = np.argsort(store.signal("entropy", "fit")[:, 1])
    assert np.all(np.diff(found[1, order, column]) >= 0)
    assert found[1, :, column].std() > 0.5


def test_gate_logits_as_large_as_there_are_keep_their_ranks(tmp_path):
    logit = np.where(np.arange(EXAMPLES * 4) % 3, np.float32(3e38), np.float32(-3e38))
    logit = logit.reshape(EXAMPLES, 4)
    store = made(tmp_path, gate_logit=logit)
    features, found = read(store)
    fit = store.rows("fit")
    for column, low in ((-2, logit[fit, 1] < 0), (-1, logit[fit, :2].max(1) < 0)):
        ranks = found[1, :, features.signals // 2 + column]
        assert ranks[low].max(initial=-np.inf) < ranks[~low].min()


def test_nothing_is_undefined_where_signals_are_or_states_are_constant(tmp_path):
    arrays = planted(examples=EXAMPLES, loops=4)
    arrays.hidden[:] = 0.3
    _, found = read(made(tmp_path, **vars(arrays)))
    assert np.isfinite(found).all()
    assert not found[:, :, -8:].any()


def test_wide_states_keep_what_varies_most(tmp_path):
    wide = WIDEST + 40
    store = made(tmp_path, **vars(planted(examples=EXAMPLES, loops=4, d_model=wide)))
    features, found = read(store)
    assert features.width - features.signals <= WIDEST
    assert np.isfinite(found).all()


def test_a_state_s_features_are_unit_spread_about_their_loop(tmp_path):
    _, found = read(made(tmp_path))
    states = found[:, :, -8:]
    np.testing.assert_allclose(states.mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(np.sqrt(states.var(1).mean(0)), 1, atol=1e-4)


def test_fewer_examples_are_fitted_on_where_they_are_wide(tmp_path):
    narrow = made(tmp_path)
    wide = made(tmp_path, "wide", **vars(planted(examples=EXAMPLES, loops=4, d_model=600)))
    assert most_examples(narrow, 20_000) == 20_000
    assert 10_000 < most_examples(wide, 10**9) < most_examples(narrow, 10**9)


@pytest.mark.parametrize("most", [1, 7, 30, 1000])
def test_examples_are_drawn_as_whole_groups(most):
    group = np.repeat(np.arange(20), 3)
    rows = np.arange(60) * 2
    kept = some_groups(rows, group, most, np.random.default_rng(0))
    assert len(kept) == min(60, max(most // 3 * 3, min(most, 3)))
    if most >= 3:
        counts = np.bincount(group[kept // 2], minlength=20)
        assert set(counts) <= {0, 3}


def test_no_group_is_in_two_folds():
    group = np.random.default_rng(0).integers(0, 50, 400)
    fold = folds(group, 5, np.random.default_rng(1))
    assert all(len(set(fold[group == g])) == 1 for g in np.unique(group))
    assert set(fold) == set(range(5))
