import math

import numpy as np
import pytest
import torch

from trajdiag.errors import ConfigError
from trajdiag.gates.halting import (
    cumulative_hazard,
    kl_to_prior,
    log_exit_pdf,
    ponder_loss,
    prior,
)


def exit_cdf(gate_logit: torch.Tensor) -> torch.Tensor:
    return -torch.expm1(-cumulative_hazard(gate_logit))


def exit_pdf_by_hand(gate_logits: list[float]) -> list[float]:
    """The definition, one factor at a time."""
    pdf, survival = [], 1.0
    for g in gate_logits[:-1]:
        hazard = 1 / (1 + math.exp(-g))
        pdf.append(hazard * survival)
        survival *= 1 - hazard
    return [*pdf, survival]


def test_uniform_prior_gives_each_loop_the_same():
    assert prior("uniform", 4).tolist() == [0.25] * 4


def test_geometric_prior_leaves_the_remainder_to_the_last_loop():
    expected = [0.3, 0.7 * 0.3, 0.49 * 0.3, 0.343]
    np.testing.assert_allclose(prior("geometric", 4, lam=0.3), expected, rtol=1e-14)


@pytest.mark.parametrize("kind", ["uniform", "geometric"])
@pytest.mark.parametrize("loops", [1, 2, 7])
def test_a_prior_sums_to_one(kind, loops):
    p = prior(kind, loops)
    assert p.shape == (loops,) and p.dtype == torch.float64
    assert p.sum().item() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("poisson", 4), "existing: uniform, geometric"),
        (("uniform", 0), "at least 1 loop"),
        (("geometric", 4, 1.0), "between 0 and 1"),
        (("geometric", 4, float("nan")), "between 0 and 1"),
    ],
)
def test_an_impossible_prior_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        prior(*arguments)


def test_exit_pdf_follows_the_definition():
    gates = [[0.3, -1.2, 2.0, 0.7], [-3.0, 0.0, 1.0, -9.0]]
    q = log_exit_pdf(torch.tensor(gates, dtype=torch.float64)).exp()
    np.testing.assert_allclose(q, [exit_pdf_by_hand(g) for g in gates], rtol=1e-12)


def test_the_last_gate_value_is_never_used():
    gates = torch.tensor([0.3, -1.2, 2.0])
    other = torch.tensor([0.3, -1.2, -50.0])
    assert torch.equal(log_exit_pdf(gates), log_exit_pdf(other))
    assert torch.equal(cumulative_hazard(gates), cumulative_hazard(other))


def test_one_loop_is_always_left_there():
    gates = torch.randn(5, 1)
    assert torch.equal(log_exit_pdf(gates).exp(), torch.ones(5, 1))
    assert torch.equal(exit_cdf(gates), torch.ones(5, 1, dtype=torch.float64))


def test_cdf_is_the_running_sum_of_the_pdf_and_ends_at_one():
    gates = torch.randn(50, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
    cdf = exit_cdf(gates)
    torch.testing.assert_close(cdf, log_exit_pdf(gates).exp().cumsum(-1), rtol=1e-12, atol=1e-14)
    assert torch.equal(cdf[:, -1], torch.ones(50, dtype=torch.float64))


def test_cumulative_hazard_still_ranks_where_the_cdf_has_saturated():
    gates = torch.tensor([[50.0, 0.0, 0.0], [60.0, 0.0, 0.0]])
    assert exit_cdf(gates)[0, 0] == exit_cdf(gates)[1, 0] == 1.0
    hazard = cumulative_hazard(gates)
    assert hazard.dtype == torch.float64
    assert hazard[0, 0] < hazard[1, 0] < hazard[0, -1] == math.inf


def test_extreme_gates_give_finite_losses_and_gradients():
    gates = torch.tensor([[200.0, 200.0, 0.0], [-200.0, -200.0, 0.0]], requires_grad=True)
    loss = ponder_loss(torch.rand(2, 3), gates, prior("uniform", 3), beta=0.1)
    loss.backward()
    assert torch.isfinite(loss) and gates.grad is not None
    assert torch.isfinite(gates.grad).all()


def test_kl_takes_the_gate_first_and_the_prior_second():
    q, pi = [0.7, 0.2, 0.1], [0.2, 0.3, 0.5]
    forward = sum(a * math.log(a / b) for a, b in zip(q, pi, strict=True))
    backward = sum(b * math.log(b / a) for a, b in zip(q, pi, strict=True))
    kl = kl_to_prior(torch.tensor(q, dtype=torch.float64).log(), torch.tensor(pi)).item()
    assert kl == pytest.approx(forward, rel=1e-6)
    assert kl != pytest.approx(backward, rel=1e-2)


def test_ponder_loss_is_expected_cross_entropy_plus_weighted_kl():
    gates, ce, beta = [[0.3, -1.2, 2.0], [1.0, 0.5, 0.0]], [[2.0, 1.0, 0.5], [0.1, 0.4, 0.9]], 0.07
    expected = 0.0
    for g, c in zip(gates, ce, strict=True):
        q = exit_pdf_by_hand(g)
        expected += sum(a * b for a, b in zip(q, c, strict=True)) / 2
        expected += beta * sum(a * math.log(3 * a) for a in q) / 2
    loss = ponder_loss(torch.tensor(ce), torch.tensor(gates), prior("uniform", 3), beta)
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_a_gate_equal_to_the_prior_has_no_kl():
    lam = 0.3
    gates = torch.full((1, 5), math.log(lam / (1 - lam)), dtype=torch.float64)
    kl = kl_to_prior(log_exit_pdf(gates), prior("geometric", 5, lam))
    assert kl.item() == pytest.approx(0.0, abs=1e-14)


def test_a_hazard_is_the_same_bit_for_bit_whatever_else_is_computed_with_it():
    logits = 4 * torch.randn(101, 5, generator=torch.Generator().manual_seed(0))
    whole = cumulative_hazard(logits)
    for size in (1, 3, 7):
        assert torch.equal(torch.cat([cumulative_hazard(x) for x in logits.split(size)]), whole)
    longer = cumulative_hazard(torch.cat([logits, logits], 1))
    assert torch.equal(longer[:, :4], whole[:, :4])
