"""A device that runs out of memory: what latency says, and what it goes on with."""

import re

import pytest
import torch

import trajdiag
from trajdiag.errors import ConfigError

FEW = {"fit": "40", "val": "40", "test": "40"}
QUICK = {"examples": 40, "singles": 2, "repeats": 1, "batch_tokens": 64}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return str(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def store(home):
    return trajdiag.extract("mano-joint-linear", task_options=FEW, cache_dir=home)


class Held:
    """A device that holds so many tokens at once, seen from the model's methods."""

    def __init__(self, monkeypatch, model, method: str, most: int) -> None:
        self.model, self.most, self.seen = model, most, []
        real = getattr(model, method)

        def limited(given):
            tokens = sum(map(self.tokens, given)) if method == "gather" else self.tokens((given,))
            self.seen.append(tokens)
            if tokens > most:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return real(given)

        monkeypatch.setattr(model, method, limited)

    def tokens(self, part) -> int:
        """Of a state, or of a state and the rows wanted of it."""
        state, *wanted = part
        rows, positions = self.model.hidden(state).shape[:2]
        return (len(wanted[0]) if wanted else rows) * positions


def measure(store, home, model, told=None, threshold=0.3, **options):
    return trajdiag.measure_latency(
        store,
        "entropy",
        threshold,
        model=model,
        cache_dir=home,
        progress=(lambda line: None) if told is None else told.append,
        **(QUICK | options),
    )


def test_smaller_live_batches_than_those_of_full_depth_are_said(store, home, monkeypatch):
    """Rows that are put together take memory that full depth does not need."""
    told = []
    model = trajdiag.load_model("mano-joint-linear")
    held = Held(monkeypatch, model, "gather", 20)
    found = measure(store, home, model, told)
    assert max(held.seen) > 20
    (said,) = [line for line in told if "out of memory" in line]
    live = int(re.fullmatch(r"entropy: .* live batches hold (\d+) .* full depth 64", said)[1])
    assert live == 32 or live == 16
    of = {row.metric: row.value for row in found.latency if row.batch == "batched"}
    assert of["differing/depth"] == 0, "every example was run, and left where the store says"


def test_a_device_too_small_for_full_depth_in_batches_asks_for_smaller_ones(
    store, home, monkeypatch
):
    model = trajdiag.load_model("mano-joint-linear")
    Held(monkeypatch, model, "step", 30)
    with pytest.raises(ConfigError, match=r"full depth in batches of 64 tokens; .* --batch-tokens"):
        measure(store, home, model)
    assert measure(store, home, model, batch_tokens=30).latency


def test_a_device_too_small_for_one_example_is_refused(store, home, monkeypatch):
    model = trajdiag.load_model("mano-joint-linear")
    Held(monkeypatch, model, "step", 1)
    words = r"cpu has not the memory for the longest of 40 examples alone; use a larger device"
    with pytest.raises(ConfigError, match=words):
        measure(store, home, model)


def test_full_depth_of_one_row_that_does_not_fit_is_refused(store, home, monkeypatch):
    """All leave at the first loop, which fits; what that is compared with does not."""
    model = trajdiag.load_model("mano-joint-linear")
    begin, step, steps = model.begin, model.step, []

    def begun(*inputs):
        steps.clear()
        return begin(*inputs)

    def first_alone(state):
        steps.append(state)
        if len(steps) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return step(state)

    monkeypatch.setattr(model, "begin", begun)
    monkeypatch.setattr(model, "step", first_alone)
    words = r"full depth of one row of \d+ tokens; use a larger device"
    with pytest.raises(ConfigError, match=words):
        measure(store, home, model, threshold=1e9, batch_tokens=1)
