"""What a block refuses, and where it puts what it takes."""

import numpy as np
import pytest
import torch

from trajdiag.errors import NonFiniteError
from trajdiag.signals.padding import PADDED
from trajdiag.signals.registry import signals_to_keep
from trajdiag.signals.tracker import compute_signals
from trajdiag.store.block import Block
from trajdiag.store.schema import SIGNAL, block_specs, trajectory_arrays

EXAMPLES, LOOPS, D, CLASSES = 6, 3, 4, 3
IDS = np.array(["a", "b", "c", "d", "e", "f"])


def a_block(*, logits_kept=True):
    arrays = trajectory_arrays(
        d_model=D, dtype="float32", classes=CLASSES if logits_kept else None, gate=True
    )
    kept = signals_to_keep(LOOPS, logits_kept=logits_kept)
    block = Block(block_specs(arrays, examples=EXAMPLES, loops=LOOPS, signals=kept))
    block.begin(IDS)
    return block


@pytest.fixture
def loops():
    draw = torch.Generator().manual_seed(0)
    return {
        "hidden": [torch.randn(EXAMPLES, D, generator=draw) for _ in range(LOOPS)],
        "logits": [torch.randn(EXAMPLES, CLASSES, generator=draw) for _ in range(LOOPS)],
        "gate_logit": [torch.randn(EXAMPLES, generator=draw) for _ in range(LOOPS)],
    }


@pytest.mark.parametrize("logits_kept", [True, False])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    ("array", "spoken"),
    [("hidden", "hidden state"), ("logits", "logits"), ("gate_logit", "gate logit")],
)
@pytest.mark.parametrize("loop", range(LOOPS))
def test_a_number_that_is_not_finite_is_named(loops, array, spoken, value, loop, logits_kept):
    loops[array][loop].view(EXAMPLES, -1)[2, -1] = value
    with pytest.raises(NonFiniteError, match=rf"{spoken} of example c at loop {loop + 1} "):
        a_block(logits_kept=logits_kept).fill(np.arange(EXAMPLES), loops)


def test_a_class_that_is_not_finite_is_seen_beside_one_that_the_row_does_not_have(loops):
    loops["logits"][1][4] = torch.tensor([2.0, PADDED, -torch.inf])
    with pytest.raises(NonFiniteError, match="logits of example e at loop 2"):
        a_block().fill(np.arange(EXAMPLES), loops)


def test_parts_of_a_block_in_any_order_are_what_they_are_together(loops):
    block = a_block()
    for at in (np.array([1, 2, 5]), np.array([4, 0]), np.array([3])):
        block.fill(at, {name: [x[at] for x in values] for name, values in loops.items()})
    for name in ("hidden", "logits"):
        np.testing.assert_array_equal(block.arrays[name], torch.stack(loops[name]).numpy())
    gates = torch.stack(loops["gate_logit"], 1).numpy()
    np.testing.assert_array_equal(block.arrays["gate_logit"], gates)
    expected = compute_signals(
        torch.stack(loops["hidden"], 1),
        torch.stack(loops["logits"], 1),
        signals_to_keep(LOOPS, logits_kept=True),
    )
    for name, values in expected.items():
        np.testing.assert_array_equal(block.arrays[SIGNAL + name], values)
