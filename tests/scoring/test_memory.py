"""Scoring holds signals, not states: its memory does not grow with their width."""

import tracemalloc

import numpy as np

from trajdiag.scoring.stores import score
from trajdiag.store.from_arrays import from_arrays

LOOPS, D_MODEL, CLASSES = 4, 512, 64


def peak_bytes(path, examples):
    """What scoring a store of random states allocates at its peak."""
    rng = np.random.default_rng(0)
    store = from_arrays(
        path,
        hidden=rng.normal(size=(examples, LOOPS, D_MODEL)).astype(np.float32),
        logits=rng.normal(size=(examples, LOOPS, CLASSES)).astype(np.float32),
        target=rng.integers(0, CLASSES, examples),
        gate_logit=rng.normal(size=(examples, LOOPS)).astype(np.float32),
    )
    tracemalloc.start()
    score(store, n_resamples=20, cache_dir=str(path.parent))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_a_store_of_more_examples_needs_memory_for_its_signals_only(tmp_path):
    peak_bytes(tmp_path / "warm.zarr", 100)
    small, large = 1000, 5000
    growth = peak_bytes(tmp_path / "large.zarr", large) - peak_bytes(tmp_path / "small.zarr", small)
    states = LOOPS * (D_MODEL + CLASSES) * 4
    assert growth / (large - small) < 0.2 * states
