"""Random blocks against the plain bootstrap over groups and analytic standard errors."""

import numpy as np
import pytest

from trajdiag.metrics.bootstrap import Resample
from trajdiag.metrics.random_blocks import RandomBlocks, about


def test_examples_of_one_group_share_a_block_and_blocks_hold_as_many_groups_each():
    group = np.repeat(np.arange(1000) * 7 - 300, 3)
    blocks = RandomBlocks.deal(group, n_resamples=10, most=50)
    code = blocks.code.reshape(1000, 3)
    assert (code == code[:, :1]).all()
    assert (np.bincount(code[:, 0], minlength=50) == 20).all()
    assert (blocks.weights.sum(axis=1) == 50).all()
    assert (blocks.weights[0] == 1).all()


def test_fewer_groups_than_blocks_are_each_a_block():
    blocks = RandomBlocks.deal(np.array([5, 9, 5, 7]), n_resamples=10)
    assert blocks.weights.shape == (11, 3)
    assert blocks.code[0] == blocks.code[2]
    assert len(set(blocks.code)) == 3


def test_the_draw_depends_on_the_seed_and_the_groups_and_not_on_the_order_of_examples():
    rng = np.random.default_rng(0)
    group, x = rng.integers(0, 80, 300), rng.normal(size=(300, 2))
    order = rng.permutation(300)
    one = RandomBlocks.deal(group, 50, seed=3).means(x)
    np.testing.assert_allclose(one, RandomBlocks.deal(group[order], 50, seed=3).means(x[order]))
    assert not np.allclose(one[1:], RandomBlocks.deal(group, 50, seed=4).means(x)[1:])


def test_the_spread_of_a_mean_is_that_of_the_plain_bootstrap_over_groups():
    rng = np.random.default_rng(1)
    group = rng.integers(0, 5000, 20_000)
    x = (rng.normal(size=5000)[group] + rng.normal(size=20_000))[:, None]
    blocks = RandomBlocks.deal(group, n_resamples=4000).means(x)[:, 0]
    plain = Resample(group, n_resamples=2000).means(x)[:, 0]
    assert blocks[0] == pytest.approx(x.mean(), abs=1e-12)
    assert blocks[1:].std() == pytest.approx(plain[1:].std(), rel=0.12)
    assert blocks[1:].mean() == pytest.approx(x.mean(), abs=0.1 * plain[1:].std())


def test_sums_over_blocks_are_the_sums_of_their_examples():
    rng = np.random.default_rng(2)
    group, x, cell = rng.integers(0, 9, 60), rng.normal(size=(60, 2)), rng.integers(0, 4, 60)
    blocks = RandomBlocks.deal(group, n_resamples=5)
    by_cell, counts = blocks.sums_by(cell, 4, x[:, 0]), blocks.histogram(cell, 4)
    for block in range(len(set(group))):
        of = blocks.code == block
        np.testing.assert_allclose(blocks.sums(x)[block], x[of].sum(axis=0))
        for c in range(4):
            assert by_cell[block, c] == pytest.approx(x[of & (cell == c), 0].sum())
            assert counts[block, c] == np.count_nonzero(of & (cell == c))
    resampled = blocks.resample(by_cell)
    np.testing.assert_allclose(resampled, blocks.weights @ by_cell)
    np.testing.assert_allclose(resampled, blocks.resample(by_cell.astype(np.float32)), rtol=1e-5)


def test_a_part_of_the_examples_keeps_its_blocks_and_draws():
    blocks = RandomBlocks.deal(np.arange(30), n_resamples=20)
    x, mask = np.arange(30.0)[:, None], np.arange(30) % 3 > 0
    per_example = blocks.weights[:, blocks.code] * mask
    expected = per_example @ x / per_example.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(blocks.of(mask).means(x[mask]), expected)


def test_a_single_group_has_no_resamples():
    found = RandomBlocks.deal(np.zeros(4, int), n_resamples=3).means(np.arange(4.0)[:, None])
    assert found[0, 0] == 1.5
    assert np.isnan(found[1:]).all()


def test_binned_resamples_are_moved_by_what_binning_took_off_the_value():
    np.testing.assert_allclose(about(0.5, np.array([0.4, 0.3, np.nan])), [0.5, 0.4, np.nan])
