"""Whatever kills extraction or spoils its files, the same command gives the same bytes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.prepared import EXAMPLES_IN_BLOCK, Prepared
from tests.store.torture import (
    Truth,
    made_without_interruption,
    survive_cuts,
    survive_flips,
    survive_killed_shards,
    survive_kills,
)
from trajdiag.store import schema

SEED = 5


def often(few: int, many: int = 200) -> list:
    """How often: in minutes, behind the slow marker, many times more."""
    return [few, pytest.param(many, marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def prepared() -> Iterator[Prepared]:
    found = Prepared()
    yield found
    found.close()


@pytest.fixture(scope="module")
def truth(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made_without_interruption(prepared, tmp_path_factory.mktemp("truth") / "whole.zarr")


@pytest.mark.parametrize("kills", often(20))
def test_killed_at_any_moment(prepared: Prepared, truth: Truth, tmp_path: Path, kills: int):
    survive_kills(prepared, tmp_path, truth, SEED, kills)


@pytest.mark.parametrize("kills", often(6, 60))
def test_three_shards_at_once(prepared: Prepared, truth: Truth, tmp_path: Path, kills: int):
    survive_killed_shards(prepared, tmp_path, truth, SEED, kills)


@pytest.mark.parametrize("cuts", often(20))
def test_files_cut_by_a_loss_of_power(prepared: Prepared, truth: Truth, tmp_path: Path, cuts: int):
    survive_cuts(prepared, tmp_path, truth, SEED, cuts)


@pytest.mark.parametrize("flips", often(20))
def test_flipped_bits_and_lost_files(
    truth: Truth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flips: int
):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", EXAMPLES_IN_BLOCK)
    monkeypatch.setattr(schema, "COLUMN_EXAMPLES", 2 * EXAMPLES_IN_BLOCK)
    survive_flips(tmp_path, truth, SEED, flips)
