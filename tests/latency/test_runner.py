"""The engine: what it drops, what it refills, what it computes, and what it refuses."""

import numpy as np
import pytest
import torch

from tests.language_models import FAMILIES, folder_of, loaded, tiny_ouro
from tests.latency.replay import Frozen, documents, letters, questions
from tests.looped import Spiral
from trajdiag.errors import ConfigError, NonFiniteError
from trajdiag.latency import pool, queue, runner
from trajdiag.latency.rule import live_rule
from trajdiag.latency.runner import run_live
from trajdiag.metrics.frontier import best_so_far
from trajdiag.readout import Readout, list_readouts


class Compacting(Spiral):
    """A Spiral whose batches can lose rows and be joined; it counts what it is asked for."""

    def __init__(self, **sizes) -> None:
        super().__init__(**sizes)
        self.rows, self.heads, self.gates = 0, 0, 0

    def step(self, state):
        self.rows += len(state[0])
        return super().step(state)

    def head(self, head_input):
        self.heads += len(head_input)
        return super().head(head_input)

    def gate_logit(self, state, at=None):
        found = super().gate_logit(state, at)
        self.gates += 0 if found is None else len(found)
        return found

    def gather(self, parts):
        taken = [tuple(x[rows] for x in state) for state, rows in parts]
        return tuple(torch.cat(parts) for parts in zip(*taken, strict=True))


def named(frozen: Frozen, name: str) -> Readout:
    return next(r for r in list_readouts(frozen.store, gates=[]) if r.name == name)


def widest_gap(frozen: Frozen, readout: Readout) -> float:
    """A threshold as far from all that is observed as one can be, with exits at several loops."""
    best = best_so_far(readout.values(frozen.store, None), readout.direction, readout.first_loop)
    values = np.sort(best[np.isfinite(best)].astype(float))
    values = values[len(values) // 5 : -len(values) // 5]
    at = int(np.diff(values).argmax())
    middle = (values[at] + values[at + 1]) / 2
    return middle if readout.direction == "high" else -middle


@pytest.fixture(scope="module")
def spiral(tmp_path_factory) -> Frozen:
    path = tmp_path_factory.mktemp("spiral") / "s.zarr"
    return letters(Compacting(loops=6), path, fit=100, val=30, test=30)


@pytest.mark.parametrize("name", ["logit_margin", "js", "acceleration_twice", "vote_share"])
@pytest.mark.parametrize("dead", [1e-9, 1 / 32, 0.3])
def test_compaction_and_refill_change_no_exit(spiral, name, dead, monkeypatch):
    """float32 on one machine: other batches change last bits, which a threshold in a gap does not
    see."""
    monkeypatch.setattr(runner, "DEAD", dead)
    readout = named(spiral, name)
    threshold = widest_gap(spiral, readout)
    expected = spiral.offline(readout, threshold)
    assert len(np.unique(expected)) > 1
    found = spiral.live(readout, threshold)
    np.testing.assert_array_equal(found.exit_depth, expected)
    np.testing.assert_array_equal(found.prediction, spiral.predicted(expected))
    assert found.compactions and found.refills
    waiting = spiral.live(readout, threshold, compact=False)
    assert expected.sum() <= found.row_loops < waiting.row_loops
    if dead == 1e-9:
        assert found.row_loops == expected.sum()  # no row runs once it is done
    dropping = spiral.live(readout, threshold, refill=False)
    assert dropping.compactions and not dropping.refills
    np.testing.assert_array_equal(dropping.exit_depth, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_compacts_and_refills(family, tmp_path):
    model = loaded(folder_of(family, tmp_path / family))
    frozen = letters(model, tmp_path / "f.zarr", batch_tokens=24)
    for name in ("logit_margin", "acceleration_twice"):
        readout = named(frozen, name)
        threshold = widest_gap(frozen, readout)
        expected = frozen.offline(readout, threshold)
        found = frozen.live(readout, threshold)
        np.testing.assert_array_equal(found.exit_depth, expected)
        np.testing.assert_array_equal(found.prediction, frozen.predicted(expected))
        assert found.compactions and found.refills


@pytest.mark.parametrize("family", ["ouro", "dory"])
def test_other_batches_move_only_what_stands_at_the_threshold(family, tmp_path):
    """Thresholds that are observed values: other batches change a number's last bits, and with them
    on which side of the threshold it falls; the exits that move are those, and no others."""
    model = loaded(folder_of(family, tmp_path / family))
    frozen = letters(model, tmp_path / "f.zarr", batch_tokens=24)
    moved = 0
    for name in ("logit_margin", "hidden_cosine", "kl_current_previous"):
        readout = named(frozen, name)
        values = readout.values(frozen.store, None)
        for example in range(0, len(values), 4):
            threshold = float(values[example, 2])
            expected = frozen.offline(readout, threshold)
            found = frozen.live(readout, threshold)
            differs = np.flatnonzero(found.exit_depth != expected)
            moved += len(differs)
            first = np.minimum(found.exit_depth, expected)[differs]
            at_first = values[differs, first - 1]
            np.testing.assert_allclose(at_first, threshold, rtol=1e-4, atol=1e-6)
    assert moved < 48, "of the 1,728 exits of 36 runs"


@pytest.mark.parametrize("what", ["questions", "documents"])
def test_units_leave_whole_and_every_example_leaves_once(what, tmp_path, monkeypatch):
    model = loaded(tiny_ouro(tmp_path / "ouro"))
    made = {"questions": questions, "documents": documents}[what]
    how = {"choices": ("Yes", "No", "maybe", "the", "is it"), "delimiter": ""}
    frozen = made(model, tmp_path / "w.zarr", **(how if what == "questions" else {}))
    work, left = frozen.work, np.zeros(len(frozen.work), int)
    gather, leave = pool.gathered_pool, runner._Found.leave

    def watched(parts):
        found = gather(parts)
        unit = np.searchsorted(work.unit_rows, found.rows, "right") - 1
        rows = np.bincount(unit, minlength=len(work.unit_rows) - 1)
        held = np.unique(unit)
        assert (rows[held] == np.diff(work.unit_rows)[held]).all()
        return found

    def counted(self, numbers, at, logits):
        left[numbers] += 1
        leave(self, numbers, at, logits)

    for module in (runner, queue):
        monkeypatch.setattr(module, "gathered_pool", watched)
    monkeypatch.setattr(runner._Found, "leave", counted)
    readout = named(frozen, "entropy")
    threshold = widest_gap(frozen, readout)
    expected = frozen.offline(readout, threshold)
    found = frozen.live(readout, threshold)
    np.testing.assert_array_equal(found.exit_depth, expected)
    np.testing.assert_array_equal(found.prediction, frozen.predicted(expected))
    assert (left == 1).all()
    assert found.compactions or what == "documents"


def test_a_model_without_compaction_waits_for_its_slowest_row(tmp_path):
    frozen = letters(Spiral(loops=6), tmp_path / "own.zarr")
    readout = named(frozen, "entropy")
    threshold = widest_gap(frozen, readout)
    found = frozen.live(readout, threshold)
    np.testing.assert_array_equal(found.exit_depth, frozen.offline(readout, threshold))
    assert found.compactions == found.refills == 0
    assert found.row_loops > found.exit_depth.sum()


@pytest.mark.parametrize(
    ("name", "heads", "gates"), [("hidden_cosine", "exits", 0), ("native", "exits", "rows")]
)
def test_only_what_the_rule_needs_is_computed(spiral, name, heads, gates, monkeypatch):
    monkeypatch.setattr(runner, "DEAD", 1e-9)
    readout = named(spiral, name)
    model = spiral.model
    model.rows = model.heads = model.gates = 0
    found = spiral.live(readout, widest_gap(spiral, readout))
    assert model.heads == len(spiral.work), "the head runs where an example leaves, and only there"
    assert model.rows == found.row_loops
    assert model.gates <= (found.row_loops if gates else 0)


def test_what_never_leaves_reads_nothing_before_the_last_loop(spiral):
    model = spiral.model
    model.rows = model.heads = model.gates = 0
    found = spiral.live(named(spiral, "native"), float("nan"))
    assert (found.exit_depth == 6).all() and model.rows == 6 * len(spiral.work)
    assert model.heads == len(spiral.work) and not model.gates


def test_what_always_leaves_runs_one_loop(spiral):
    found = spiral.live(named(spiral, "logit_margin"), -np.inf)
    assert (found.exit_depth == 1).all() and found.row_loops == len(spiral.work)


@pytest.mark.parametrize(
    ("name", "spoken"),
    [("entropy", "logits"), ("acceleration", "hidden state"), ("native", "gate")],
)
@pytest.mark.parametrize("compact", [False, True])
def test_nan_is_named_by_example_and_loop(spiral, name, spoken, compact):
    class Broken(Compacting):
        def step(self, state):
            x, context = super().step(state)
            self.count = getattr(self, "count", 0) + 1
            return (x * torch.nan if self.count == 2 else x), context

    rule = live_rule(Broken(loops=6), name, 1e300 if name == "native" else -1e300)
    with pytest.raises(NonFiniteError, match=rf"{spoken}.* of example .*-\d+ at loop 2 is NaN"):
        run_live(Broken(loops=6), spiral.work, rule, batch_tokens=90, compact=compact)


class Small(Compacting):
    """On a device that holds so many tokens at once."""

    def __init__(self, most: int) -> None:
        super().__init__(loops=6)
        self.most = most

    def _require(self, tokens: int) -> None:
        if tokens > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")

    def step(self, state):
        self._require(state[0].shape[:2].numel())
        return super().step(state)

    def gather(self, parts):
        self._require(sum(len(rows) * x.shape[1] for (x, _), rows in parts))
        return super().gather(parts)


def test_out_of_memory_halves_the_batches(spiral):
    readout = named(spiral, "logit_margin")
    threshold = widest_gap(spiral, readout)
    rule = live_rule(spiral.model, "logit_margin", threshold)
    found = run_live(Small(30), spiral.work, rule, batch_tokens=100)
    assert found.batch_tokens == 25
    np.testing.assert_array_equal(found.exit_depth, spiral.offline(readout, threshold))
    assert spiral.live(readout, threshold).batch_tokens == spiral.batch_tokens


def test_a_device_too_small_for_one_example_is_said(spiral):
    rule = live_rule(spiral.model, "logit_margin", 0.0)
    with pytest.raises(ConfigError, match=r"cpu has not the memory .*; use a larger device"):
        run_live(Small(2), spiral.work, rule, batch_tokens=100)


@pytest.mark.parametrize(("name", "sign"), [("logit_margin", 1), ("entropy", -1), ("native", 1)])
def test_a_threshold_out_of_reach_reads_nothing(spiral, name, sign):
    model = Compacting(loops=6)
    found = run_live(model, spiral.work, live_rule(model, name, sign * np.inf), batch_tokens=90)
    assert (found.exit_depth == 6).all() and model.rows == 6 * len(spiral.work)
    assert model.heads == len(spiral.work) and not model.gates


def test_nan_logits_at_the_exit_are_named(spiral):
    class Broken(Compacting):
        def head(self, head_input):
            return super().head(head_input) * torch.nan

    rule = live_rule(Broken(loops=6), "native", np.nan)
    with pytest.raises(NonFiniteError, match=r"logits of example fit-0000 at loop 6 is NaN"):
        run_live(Broken(loops=6), spiral.work, rule, batch_tokens=90)
