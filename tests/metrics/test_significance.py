"""p values against scipy, against their definitions written out, and where they are undefined."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from trajdiag.metrics.significance import bootstrap_p, holm, mcnemar_exact


@pytest.mark.parametrize(("first", "second"), list(itertools.product(range(12), repeat=2)))
def test_mcnemar_is_the_exact_sum_of_both_tails(first: int, second: int):
    n, k = first + second, min(first, second)
    tail = Fraction(sum(math.comb(n, i) for i in range(k + 1)), 2**n)
    assert mcnemar_exact(first, second) == pytest.approx(float(min(1, 2 * tail)), rel=1e-12)


@pytest.mark.parametrize(
    ("first", "second"),
    [(0, 1), (1, 0), (3, 40), (180, 220), (5_000, 5_300), (1_000_000, 1_002_000), (0, 1_000_000)],
)
def test_mcnemar_agrees_with_scipys_binomial_test(first: int, second: int):
    expected = binomtest(first, first + second, 0.5).pvalue
    assert mcnemar_exact(first, second) == pytest.approx(expected, rel=1e-6)


def test_mcnemar_of_no_difference_says_nothing():
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(10**6, 10**6) == 1.0


def test_mcnemar_of_a_negative_count_is_refused():
    with pytest.raises(ValueError, match="0 or more"):
        mcnemar_exact(3, -1)


def test_holm_is_right_on_an_example_worked_by_hand():
    # ordered: .01 x 4, .02 x 3, .03 x 2 (less than .06 already), .2 x 1
    assert holm([0.03, 0.01, 0.2, 0.02]) == pytest.approx([0.06, 0.04, 0.2, 0.06])


def test_holm_rejects_what_the_step_down_procedure_rejects():
    rng = np.random.default_rng(0)
    for _ in range(200):
        p = (rng.random(6) ** 3).tolist()
        for level in (0.01, 0.05, 0.2):
            rejected = set()
            for rank, index in enumerate(np.argsort(p)):
                if p[index] > level / (6 - rank):
                    break
                rejected.add(int(index))
            assert {
                i for i, value in enumerate(holm(p)) if value is not None and value <= level
            } == (rejected)


def test_holm_leaves_out_what_is_undefined_and_keeps_ties_tied():
    assert holm([None, 0.02, None, 0.02]) == [None, pytest.approx(0.04), None, pytest.approx(0.04)]
    assert holm([]) == []
    assert holm([None]) == [None]
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert holm([0.9, 0.9]) == [1.0, 1.0]


@pytest.mark.parametrize("odd", [float("nan"), -0.1, 1.1])
def test_holm_refuses_what_is_no_probability(odd: float):
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.1, odd])


def test_the_bootstraps_p_counts_resamples_on_the_other_side_of_0():
    drawn = [*[1.0] * 85, *[-1.0] * 14]
    assert bootstrap_p(np.array([2.0, *drawn])) == pytest.approx(2 * 15 / 100)
    assert bootstrap_p(np.array([-2.0, *[-1.0] * 99])) == pytest.approx(2 / 100)


def test_the_bootstraps_p_of_an_estimate_that_is_always_0_is_1():
    assert bootstrap_p(np.zeros(101)) == 1.0


def test_the_bootstraps_p_leaves_out_undefined_resamples():
    estimate = np.array([1.0, *[1.0] * 9, np.nan, np.inf])
    assert bootstrap_p(estimate) == pytest.approx(2 / 10)
    assert bootstrap_p(np.array([np.nan, 1.0, 1.0])) is None
    assert bootstrap_p(np.array([1.0, np.nan, 1.0])) is None


def test_the_bootstraps_p_is_the_normal_tests_where_the_estimate_is_normal():
    rng = np.random.default_rng(0)
    for z in (0.5, 1.0, 2.0):
        p = bootstrap_p(np.concatenate([[z], z + rng.normal(size=200_000)]))
        assert p == pytest.approx(2 * norm.sf(z), abs=0.005)


def test_where_hardly_a_resample_crosses_0_the_normal_tail_tells_how_small_p_is():
    rng = np.random.default_rng(3)
    drawn = rng.normal(4.0, 1.0, 1000)
    found = bootstrap_p(np.array([4.0, *drawn]))
    assert found == pytest.approx(2 * norm.sf(4.0 / drawn.std()))
    assert found < 2 / 1001
    # So that a correction for 30 comparisons can still clear it.
    assert holm([found] * 30)[0] < 0.05


def test_an_estimate_without_spread_keeps_the_share_s_p():
    assert bootstrap_p(np.array([1.0, *[1.0] * 99])) == pytest.approx(2 / 100)
    assert bootstrap_p(np.zeros(100)) == 1.0
