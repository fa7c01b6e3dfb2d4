"""Two hundred of what tests/store/test_torture.py does with twenty."""

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

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def prepared() -> Iterator[Prepared]:
    found = Prepared()
    yield found
    found.close()


@pytest.fixture(scope="module")
def truth(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made_without_interruption(prepared, tmp_path_factory.mktemp("truth") / "whole.zarr")


def test_killed_at_200_moments(prepared: Prepared, truth: Truth, tmp_path: Path):
    survive_kills(prepared, tmp_path, truth, seed=200, kills=200)


def test_three_shards_at_once_killed_60_times(prepared: Prepared, truth: Truth, tmp_path: Path):
    survive_killed_shards(prepared, tmp_path, truth, seed=200, kills=60)


def test_200_files_cut_by_a_loss_of_power(prepared: Prepared, truth: Truth, tmp_path: Path):
    survive_cuts(prepared, tmp_path, truth, seed=200, cuts=200)


def test_200_flipped_bits_and_lost_files(
    truth: Truth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", EXAMPLES_IN_BLOCK)
    monkeypatch.setattr(schema, "COLUMN_EXAMPLES", 2 * EXAMPLES_IN_BLOCK)
    survive_flips(tmp_path, truth, seed=200, flips=200)
