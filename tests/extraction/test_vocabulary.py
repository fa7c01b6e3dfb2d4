"""What is kept of the vocabulary: the largest logits, the lower id first among equals."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from trajdiag.errors import ConfigError
from trajdiag.extraction.vocabulary import choose, largest, statistics


@pytest.mark.parametrize("levels", [2, 3, 10, 1000])
@pytest.mark.parametrize("count", [1, 8, 64, 320])
def test_the_largest_are_those_of_a_stable_sort(levels, count):
    z = torch.randint(0, levels, (40, 320), generator=torch.Generator().manual_seed(0)).float()
    found = largest(z, count)
    order = np.argsort(-z.numpy(), axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(found["vocabulary/top_ids"], order)
    np.testing.assert_array_equal(
        found["vocabulary/top_logits"], np.take_along_axis(z.numpy(), order, 1)
    )


def test_statistics_hold_where_a_softmax_saturates():
    z = torch.tensor([[0.0, 500.0, -500.0], [3.0, 3.0, 3.0]])
    found = statistics(z, torch.tensor([0, 2]))
    wide = z.double().numpy()
    np.testing.assert_allclose(found["vocabulary/log_sum_exp"], logsumexp(wide, axis=1))
    np.testing.assert_allclose(found["vocabulary/entropy"], [0, np.log(3)], atol=1e-12)
    np.testing.assert_allclose(
        found["vocabulary/target_log_probability"], [-500, -np.log(3)], rtol=1e-6
    )


def test_auto_keeps_all_within_the_budget_and_else_64():
    sizes = {"vocab_size": 49152, "examples": 1000, "loops": 4}
    assert choose("auto", **sizes, budget=0.74).logits == "full"
    assert choose("auto", **sizes, budget=0.73).logits == "topk:64"
    assert "0.73 GiB are above --logits-budget 0.73" in choose("auto", **sizes, budget=0.73).said
    assert choose("auto", vocab_size=10, examples=10, loops=4, budget=0).logits == "topk:10"
    with pytest.raises(ConfigError, match="K from 1 to 49152, got 'topk:49153'"):
        choose("topk:49153", **sizes, budget=1)
