"""Four planted worlds, each diagnosed right, with nothing else blamed."""

import pytest

from tests.planted_worlds import (
    bad_trajectory_perfect_gate,
    good_trajectory_bad_gate,
    hidden_signal,
    pure_luck,
)
from trajdiag import diagnose

CAUSES = {"trajectory-bound", "readout-behind", "signal-not-exposed", "nothing-finds", "chance"}


def blamed(results):
    """The causes that are blamed."""
    return {f.code for f in results.findings if f.severity != "info"} & CAUSES


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("make", "cause", "words"),
    [
        (good_trajectory_bad_gate, "readout-behind", "mostly the readout's"),
        (bad_trajectory_perfect_gate, "trajectory-bound", "and that is the trajectory's"),
        (
            hidden_signal,
            "signal-not-exposed",
            "mostly the readout's, which misses what a fitted rule finds",
        ),
        (pure_luck, "chance", "is at chance"),
    ],
)
def test_the_planted_cause_is_found_and_nothing_else_is_blamed(tmp_path, make, cause, words, seed):
    store = make(tmp_path / "world.zarr", seed=seed)
    assert len(store) == 2000
    results = diagnose(store, n_resamples=400, bound=("ridge", "boosted"))
    assert blamed(results) == {cause}
    assert words in results.verdict[0]


def test_a_learned_readout_wins_where_no_simple_signal_shows_it(tmp_path):
    results = diagnose(hidden_signal(tmp_path / "world.zarr"), n_resamples=200, bound=("ridge",))
    area = {r.readout: r.value for r in results.scores if (r.metric, r.split) == ("area", "test")}
    simple = [r.readout for r in results.readouts if r.kind in ("signal", "fixed")]
    assert area["bound"] > max(area[name] for name in simple) + 0.3
    assert "the learned bound is" in results.verdict[1]
