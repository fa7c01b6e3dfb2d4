"""A small sample of a store's test examples, loop by loop: what a table of shares is made of."""

import numpy as np
from numpy.typing import NDArray

from trajdiag.diagnosis.regret import under_diagnosis
from trajdiag.results import ExampleRow
from trajdiag.scoring.evaluation import Evaluation, Scored

ALONE, BESIDE = 48, 12
"""Examples of a store that is diagnosed alone, and of one among others."""
MOST_CHARACTERS = 600
"""Of an input; of longer ones the middle is left out."""
KINDS = ("native", "gate", "signal", "fixed")
ORDER = ("early", "late", "trajectory", "ok")
"""In which verdicts are drawn in turn: what went wrong comes first."""


def example_rows(scored: Scored, stores: int, seed: int) -> list[ExampleRow]:
    """A row an example and readout: the one under diagnosis, whose verdicts are drawn from in turn
    and at random, then the best of each other kind by its area on val. The same store and seed
    give the same examples."""
    readouts = _readouts(scored)
    if not readouts:
        return []
    test = scored.outcomes.test
    verdicts = {e.readout.name: verdict(test.correct, _leaves(e)) for e in readouts}
    drawn = draw(verdicts[readouts[0].readout.name], ALONE if stores == 1 else BESIDE, seed)
    return [_row(scored, e, verdicts[e.readout.name], i) for i in drawn for e in readouts]


def verdict(correct: NDArray[np.bool_], leaves: NDArray[np.integer]) -> NDArray[np.str_]:
    """The part of the attribution that each example is in, which leaves at these loops [example]
    and is right at `correct` [example, loop]."""
    at = np.asarray(leaves, np.int64) - 1
    before = np.arange(correct.shape[1]) < at[:, None]
    found = np.where((correct & before).any(axis=1), "late", "early")
    found = np.where(correct.any(axis=1), found, "trajectory")
    return np.where(correct[np.arange(len(at)), at], "ok", found)


def draw(verdicts: NDArray[np.str_], most: int, seed: int) -> list[int]:
    """At most `most` examples, one of each verdict in turn, at random within a verdict."""
    rng = np.random.default_rng(seed)
    left = [rng.permutation(np.flatnonzero(verdicts == part)).tolist() for part in ORDER]
    found: list[int] = []
    while any(left) and len(found) < most:
        found += [of.pop() for of in left if of][: most - len(found)]
    return found


def _readouts(scored: Scored) -> list[Evaluation]:
    usable = [e for e in scored.evaluations if e.exits is not None and e.shares is not None]
    first = under_diagnosis(scored)
    found = [first] if any(e is first for e in usable) else []
    for kind in KINDS:
        of_kind = [e for e in usable if e.readout.kind == kind]
        if of_kind and not any(e.readout.kind == kind for e in found):
            found.append(max(of_kind, key=lambda e: e.val_area))
    return found


def _leaves(evaluation: Evaluation) -> NDArray[np.int16]:
    assert evaluation.exits is not None
    return evaluation.exits.leaves


def _row(scored: Scored, e: Evaluation, verdicts: NDArray[np.str_], i: int) -> ExampleRow:
    test, store = scored.outcomes.test, scored.outcomes.store
    target, predictions = int(test.target[i]), [int(p) for p in test.predictions[i]]
    texts = store.class_texts
    names = None if texts is None else {c: texts[c] or str(c) for c in (target, *predictions)}
    row, difficulty = int(test.rows[i]), float(scored.outcomes.difficulty[i])
    assert e.exits is not None
    return ExampleRow(
        store=scored.name,
        example=str(store.ids[row]),
        readout=e.readout.name,
        verdict=str(verdicts[i]),
        leaves=int(e.exits.leaves[i]),
        target=target,
        predictions=predictions,
        target_name=None if names is None else names[target],
        prediction_names=None if names is None else [names[p] for p in predictions],
        values=_values(e.exits.values[i]),
        difficulty=difficulty if np.isfinite(difficulty) else None,
        input=None if store.inputs is None else _shortened(str(store.inputs[row])),
    )


def _values(values: NDArray[np.floating]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def _shortened(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    # A prompt's end holds the question itself, so it keeps the larger part.
    head = MOST_CHARACTERS // 3
    return f"{text[:head]} … {text[head - MOST_CHARACTERS :]}"
