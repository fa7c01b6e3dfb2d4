"""Shards: each block is one shard's, and two that have a block in common are told apart."""

import itertools

import pytest

from trajdiag.errors import ConfigError
from trajdiag.store.shard import WHOLE, Shard

SHARDS = [Shard(index=index, count=count) for count in range(1, 7) for index in range(count)]


@pytest.mark.parametrize("count", range(1, 7))
def test_every_block_is_written_by_just_one_shard(count):
    shards = [Shard(index=index, count=count) for index in range(count)]
    assert sorted(itertools.chain(*(shard.blocks(17) for shard in shards))) == list(range(17))


def test_two_shards_meet_where_a_block_is_both_theirs():
    for one, other in itertools.product(SHARDS, SHARDS):
        common = set(one.blocks(60)) & set(other.blocks(60))
        assert one.meets(other) == bool(common), (one, other)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ((1, 2), (0, 1), True),
        ((1, 4), (1, 2), True),
        ((3, 4), (1, 2), True),
        ((1, 4), (0, 2), False),
        ((0, 2), (1, 2), False),
        ((0, 2), (1, 3), True),
    ],
)
def test_some_that_do_and_some_that_do_not(one, other, meet):
    first, second = (Shard(index=index, count=count) for index, count in (one, other))
    assert first.meets(second) == second.meets(first) == meet


def test_a_name_gives_the_shard_again():
    assert [Shard.named(shard.name) for shard in SHARDS] == SHARDS
    assert Shard.named("0-of-1") == WHOLE


@pytest.mark.parametrize("name", ["", "1-of-1", "2-of-0", "-1-of-2", "a-of-b", "1-of-2-of-3"])
def test_other_names_are_of_none(name):
    assert Shard.named(name) is None


@pytest.mark.parametrize(("index", "count"), [(2, 2), (-1, 2), (0, 0)])
def test_a_shard_beyond_the_last_is_refused(index, count):
    with pytest.raises(ConfigError, match="shard must be from 0 to"):
        Shard(index=index, count=count)
