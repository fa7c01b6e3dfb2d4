"""A store's model and examples again, and what is refused."""

import numpy as np
import pytest

import trajdiag
from tests.latency.replay import Frozen, documents, letters, questions
from tests.looped import Letters, Spiral
from trajdiag.errors import ConfigError, FingerprintError
from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.work import Continuations
from trajdiag.latency.reopening import reopen, some_units
from trajdiag.latency.rule import live_rule
from trajdiag.latency.runner import run_live

TINY = {"fit": "60", "val": "40", "test": "40"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return str(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def store(home):
    return trajdiag.extract("mano-joint-linear", task_options=TINY, cache_dir=home)


def test_a_store_names_its_own_model_and_examples(store, home):
    again = reopen(store, cache_dir=home)
    assert again.model.record.sha256 == store.record.model["sha256"]
    np.testing.assert_array_equal(again.work.columns.id.astype(str), store.ids)
    assert (again.loops, again.batch_tokens) == (store.loops, 16384)


@pytest.mark.parametrize("made_in_python", [False, True])
def test_a_line_is_read_back_into_its_options(made_in_python):
    config = ExtractConfig(
        model="a b",
        task="parity",
        task_options={"fit": "60", "max_difficulty": "5"},
        loops=3,
        inputs=False,
        truncate=True,
        memory=1.5,
        pool="mean",
    )
    line = config.call() if made_in_python else config.command()
    assert ExtractConfig.from_line(line) == config


def test_other_weights_and_other_examples_are_refused(store, home):
    with pytest.raises(FingerprintError, match="is of model mano-joint-linear with SHA-256"):
        reopen(store, model="mano-fixed-uniform", cache_dir=home)
    other = trajdiag.make_task("mano", fit=60, val=40, test=41)
    with pytest.raises(FingerprintError, match=r"task\.test"):
        reopen(store, task=other, cache_dir=home)


def test_examples_that_changed_behind_the_same_parameters_are_refused(tmp_path):
    class Moved(Letters):
        def examples(self):
            found = super().examples()
            found["test"].target[3] = (found["test"].target[3] + 1) % 4
            return found

    model = Spiral()
    store = trajdiag.extract(model, Letters(), store=str(tmp_path / "s.zarr"))
    assert len(reopen(store, model=model, task=Letters()).work) == len(store)
    with pytest.raises(FingerprintError, match="it gives target"):
        reopen(store, model=model, task=Moved())


def test_what_has_no_name_is_asked_for(tmp_path):
    store = trajdiag.extract(Spiral(), Letters(), store=str(tmp_path / "s.zarr"))
    with pytest.raises(ConfigError, match="name them as --model and --task"):
        reopen(store)


def test_arrays_have_no_model(tmp_path):
    rng = np.random.default_rng(0)
    store = trajdiag.from_arrays(
        tmp_path / "a.zarr",
        rng.normal(size=(90, 3, 4)).astype("float32"),
        rng.normal(size=(90, 3, 5)).astype("float32"),
        rng.integers(0, 5, 90),
    )
    with pytest.raises(ConfigError, match="was made of arrays, and there is no model to run"):
        reopen(store)


def test_units_are_drawn_whole_and_within_the_number(tmp_path):
    work = letters(Spiral(loops=6), tmp_path / "s.zarr").work
    assert len(some_units(work, "test", 5, 0)) == 5
    assert (work.columns.split[some_units(work, "test", 5, 0)] == "test").all()
    assert len(some_units(work, "test", 999, 0)) == 14
    assert some_units(work, "fit", 9, 1).tolist() == some_units(work, "fit", 9, 1).tolist()
    assert some_units(work, "fit", 9, 1).tolist() != some_units(work, "fit", 9, 2).tolist()


def both(frozen: Frozen, units: np.ndarray) -> None:
    """The live exits of a part are those that its examples have in the whole."""
    rule = live_rule(frozen.model, "fixed", 2.0, loops=frozen.loops)
    whole = run_live(frozen.model, frozen.work, rule, batch_tokens=90, keep_logits=True)
    part = frozen.work.only(units)
    found = run_live(frozen.model, part, rule, batch_tokens=90, keep_logits=True)
    examples = frozen.work.examples(units)
    assert part.columns.id.tolist() == frozen.work.columns.id[examples].tolist()
    np.testing.assert_allclose(found.logits, whole.logits[examples], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("how", ["letters", "questions", "documents"])
def test_a_part_of_any_kind_of_work_reads_what_the_whole_reads(how, tmp_path):
    from tests.language_models import loaded, tiny_ouro

    model = loaded(tiny_ouro(tmp_path / "m"))
    made = {"letters": letters, "questions": questions, "documents": documents}[how]
    frozen = made(model, tmp_path / "f.zarr")
    assert how != "questions" or isinstance(frozen.work.decision, Continuations)
    both(frozen, np.arange(1, len(frozen.work.unit_rows) - 1, 2))
