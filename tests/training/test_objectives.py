"""Objectives against the formulas in numpy."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax

from trajdiag.errors import ConfigError
from trajdiag.training.objectives import loop_cross_entropy, make_objective

ROWS, LOOPS, CLASSES = 6, 4, 5
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(ROWS, LOOPS, CLASSES)) * 3
TARGET = RNG.integers(0, CLASSES, ROWS)
GATE = RNG.normal(size=(ROWS, LOOPS))
CE = -log_softmax(LOGITS, axis=-1)[np.arange(ROWS), :, TARGET]


def objective(kind: Any, prior: Any = "uniform", beta: float = 0.0, gate: bool = False) -> float:
    made = make_objective(kind, loops=LOOPS, prior_kind=prior, lam=0.3, beta=beta)
    gate_logit = torch.from_numpy(GATE) if gate else None
    return made(torch.from_numpy(LOGITS), torch.from_numpy(TARGET), gate_logit).item()


def test_loop_cross_entropy_is_minus_the_targets_log_probability() -> None:
    computed = loop_cross_entropy(torch.from_numpy(LOGITS), torch.from_numpy(TARGET))
    np.testing.assert_allclose(computed.numpy(), CE, rtol=1e-12)


def test_final_is_the_last_loops_loss() -> None:
    assert objective("final") == pytest.approx(CE[:, -1].mean(), rel=1e-12)


def test_fixed_weights_the_loops_by_the_prior() -> None:
    assert objective("fixed") == pytest.approx(CE.mean(), rel=1e-12)
    geometric = [0.3, 0.3 * 0.7, 0.3 * 0.7**2, 0.7**3]
    assert objective("fixed", "geometric") == pytest.approx((CE @ geometric).mean(), rel=1e-12)


def test_joint_weights_the_loops_by_the_gate_and_holds_it_to_the_prior() -> None:
    hazard = expit(GATE[:, :-1])
    q = np.empty((ROWS, LOOPS))
    survival = np.ones(ROWS)
    for loop in range(LOOPS - 1):
        q[:, loop] = hazard[:, loop] * survival
        survival = survival * (1 - hazard[:, loop])
    q[:, -1] = survival
    kl = (q * np.log(q * LOOPS)).sum(1)
    expected = (q * CE).sum(1) + 0.25 * kl
    assert objective("joint", beta=0.25, gate=True) == pytest.approx(expected.mean(), rel=1e-9)


def test_joint_asks_for_a_gate() -> None:
    with pytest.raises(ConfigError, match="needs a model with a gate"):
        objective("joint")


def test_an_unknown_objective_lists_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="existing: final, fixed, joint"):
        objective("first")
