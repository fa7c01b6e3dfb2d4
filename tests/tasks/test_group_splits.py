"""Splits by group: shares, and what few groups give."""

from collections import Counter

import pytest

from trajdiag.tasks.group_splits import draw_by_group


def test_half_is_fit_a_fifth_val_and_three_tenths_test() -> None:
    splits = draw_by_group([str(i) for i in range(1000)], seed=0)
    assert Counter(splits) == {"fit": 500, "val": 200, "test": 300}


def test_a_group_is_in_one_split_wherever_it_stands() -> None:
    groups = [f"g{i % 50}" for i in range(400)]
    splits = draw_by_group(groups, seed=1)
    of_group = dict(zip(groups, splits, strict=True))
    assert len(set(zip(groups, splits, strict=True))) == 50
    assert draw_by_group(groups[::-1], seed=1) == [of_group[g] for g in groups[::-1]]
    assert draw_by_group(groups, seed=2) != splits


@pytest.mark.parametrize(
    ("groups", "expected"),
    [(1, ["test"]), (2, ["test", "val"]), (3, ["fit", "test", "val"]), (4, ["fit"] * 2)],
)
def test_of_few_groups_test_comes_first(groups: int, expected: list[str]) -> None:
    splits = sorted(draw_by_group([str(i) for i in range(groups)], seed=0))
    assert splits == (expected if groups < 4 else [*expected, "test", "val"])
