"""Attribution of wrong exits, case by case and in sum."""

import numpy as np
import pytest

from trajdiag.metrics.attribution import PARTS, part_of


@pytest.mark.parametrize(
    ("right", "exit_loop", "part"),
    [
        ([0, 1, 1], 2, "ok"),
        ([1, 0, 0], 1, "ok"),
        ([0, 0, 0], 1, "trajectory"),
        ([0, 0, 0], 3, "trajectory"),
        ([0, 0, 1], 2, "early"),
        ([0, 1, 0], 1, "early"),
        ([0, 1, 0], 3, "late"),
        ([1, 0, 1], 2, "late"),
        ([1], 1, "ok"),
        ([0], 1, "trajectory"),
    ],
)
def test_a_wrong_exit_is_blamed_on(right, exit_loop, part):
    code = part_of(np.array([exit_loop]), np.array([right], dtype=bool))
    assert PARTS[code[0]] == part


def test_every_example_has_one_part():
    rng = np.random.default_rng(0)
    code = part_of(rng.integers(1, 6, 1000), rng.random((1000, 5)) < 0.3)
    assert np.bincount(code, minlength=4).sum() == 1000
    assert set(code) == {0, 1, 2, 3}
