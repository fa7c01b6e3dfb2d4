"""The line of costs and the split of what is lost, on times of known parts."""

import numpy as np
import pytest

from trajdiag.extraction.work import Classes, Work
from trajdiag.latency.cost import fit_cost, lost_time
from trajdiag.latency.side_by_side import token_depth

LOOPS = np.array([1, 2, 3, 4, 2, 3, 4])
READINGS = np.array([0, 0, 0, 0, 1, 2, 3])


def test_a_line_is_found_exactly():
    cost = fit_cost(LOOPS, READINGS, 0.7 + 1.3 * LOOPS + 0.2 * READINGS)
    assert (cost.fixed, cost.loop, cost.reading) == pytest.approx((0.7, 1.3, 0.2))
    assert cost.r2 == pytest.approx(1) and cost.rms == pytest.approx(0, abs=1e-12)


def test_noise_is_the_residual_and_the_line_is_the_normal_equations():
    rng = np.random.default_rng(0)
    time = 0.7 + 1.3 * LOOPS + 0.2 * READINGS + rng.normal(0, 0.1, len(LOOPS))
    cost = fit_cost(LOOPS, READINGS, time)
    x = np.column_stack([np.ones(len(LOOPS)), LOOPS, READINGS])
    expected = np.linalg.inv(x.T @ x) @ x.T @ time
    missed = time - x @ expected
    assert (cost.fixed, cost.loop, cost.reading) == pytest.approx(tuple(expected))
    assert cost.rms == pytest.approx(np.sqrt(np.mean(missed**2)))
    assert cost.r2 == pytest.approx(1 - missed.var() / time.var())


def test_without_readings_a_reading_costs_nothing():
    cost = fit_cost(LOOPS[:4], READINGS[:4], 0.7 + 1.3 * LOOPS[:4])
    assert (cost.fixed, cost.loop, cost.reading) == pytest.approx((0.7, 1.3, 0))


def test_times_of_the_line_lose_just_the_fixed_part_and_the_readings():
    cost = fit_cost(LOOPS, READINGS, 0.7 + 1.3 * LOOPS + 0.2 * READINGS)
    full, depth, readings = 0.7 + 1.3 * 4, 1.5, 1.4
    live = 0.7 + 1.3 * depth + 0.2 * readings
    lost = lost_time(cost, full, live, depth=depth, token_depth=depth, loops=4, readings=readings)
    assert lost.fixed == pytest.approx(0.7 * (1 - 1.5 / 4) / full)
    assert lost.reading == pytest.approx(0.2 * 1.4 / full)
    assert lost.rows == 0 and lost.rest == pytest.approx(0, abs=1e-12)


def test_what_longer_rows_take_for_leaving_later_is_told_apart():
    work = Work(
        tokens=np.zeros(12, np.int32),
        row_start=np.array([0, 2, 6, 9, 12]),
        unit_rows=np.array([0, 1, 2, 4]),  # a short row, a long one, a question of two rows
        unit_examples=np.array([0, 1, 3, 4]),
        row=np.array([0, 1, 1, 2]),
        at=np.array([1, 1, 3, 2]),
        decision=Classes(ids=None),
        columns=None,  # pyright: ignore[reportArgumentType]
        class_names=None,
    )
    # the long row runs until its second example leaves, at loop 4
    tokens = token_depth(work, np.array([1, 2, 4, 3], np.int16))
    assert tokens == (2 * 1 + 4 * 4 + 3 * 3 + 3 * 3) / 12
    cost = fit_cost(LOOPS, READINGS, 1.3 * LOOPS)
    lost = lost_time(
        cost, 1.3 * 4, 1.3 * tokens, depth=2.5, token_depth=tokens, loops=4, readings=0
    )
    assert lost.rows == pytest.approx((tokens - 2.5) / 4)
    assert lost.rest == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_parts_sum_to_the_whole(seed):
    fixed, loop, reading, full, live = np.random.default_rng(seed).uniform(0.1, 3, 5)
    cost = fit_cost(LOOPS, READINGS, fixed + loop * LOOPS + reading * READINGS)
    lost = lost_time(cost, full, live, depth=2.25, token_depth=2.6, loops=4, readings=1.7)
    assert lost.fixed + lost.reading + lost.rows + lost.rest == pytest.approx(lost.whole, abs=1e-12)
    assert lost.whole == pytest.approx(live / full - 2.25 / 4)
