import math

import pytest
import torch

from trajdiag.gates import objectives
from trajdiag.gates.halting import prior

CE = torch.tensor([[2.0, 0.5, 0.75, 0.25], [0.1, 0.1, 3.0, 0.2]], dtype=torch.float64)


def test_each_utility_asks_about_its_own_loops_gain():
    nxt = objectives.gain(CE, "next")
    assert torch.allclose(nxt, torch.tensor([[1.5, 0, 0.5], [0, 0, 2.8]], dtype=torch.float64))
    assert torch.equal(objectives.gain(CE, "previous"), nxt)
    best_later = torch.tensor([[1.75, 0.25, 0.5], [0, 0, 2.8]], dtype=torch.float64)
    assert torch.allclose(objectives.gain(CE, "any-later"), best_later)


@pytest.mark.parametrize(
    ("kind", "loops"), [("next", [1, 2, 3]), ("any-later", [1, 2, 3]), ("previous", [2, 3, 4])]
)
def test_the_backward_label_starts_at_loop_2_and_the_forward_ones_end_before_the_last(kind, loops):
    assert list(objectives.utility(CE, kind, 50.0, 0.005).loops) == loops


def test_the_utility_label_says_go_on_by_the_papers_sigmoid():
    stop = objectives.utility(CE, "next", 50.0, 0.005).evidence
    assert stop[0, 2].item() == pytest.approx(1 - 1 / (1 + math.exp(-50 * (0.5 - 0.005))))
    assert stop[1, 0].item() == pytest.approx(1 - 1 / (1 + math.exp(-50 * (0.0 - 0.005))))


def test_the_utility_loss_is_the_bce_between_going_on_and_its_label():
    objective = objectives.utility(CE, "next", 2.0, 0.1)
    logit = torch.tensor([[0.3, -1.0, 2.0], [0.0, 1.5, -0.5]])
    want = 0.0
    for i in range(2):
        for t in range(3):
            w = 1 / (1 + math.exp(-2.0 * (max(0.0, float(CE[i, t] - CE[i, t + 1])) - 0.1)))
            go_on = 1 - 1 / (1 + math.exp(-float(logit[i, t])))
            want -= (w * math.log(go_on) + (1 - w) * math.log(1 - go_on)) / 6
    assert objective.loss(logit, objective.evidence).item() == pytest.approx(want, rel=1e-5)


def test_the_ponder_loss_spends_the_remainder_at_the_last_loop():
    objective = objectives.ponder(CE, prior("uniform", 4), beta=0.1)
    logit = torch.tensor([[0.0, 1.0, -2.0], [3.0, 0.5, 0.0]])
    want = 0.0
    for i in range(2):
        left = 1.0
        for t in range(4):
            leave = 1 / (1 + math.exp(-float(logit[i, t]))) if t < 3 else 1.0
            q = left * leave
            left -= q
            want += q * (float(CE[i, t]) + 0.1 * math.log(q / 0.25)) / 2
    assert objective.loss(logit, objective.evidence).item() == pytest.approx(want, rel=1e-5)
    assert list(objective.loops) == [1, 2, 3]


def test_the_ponder_baseline_is_the_loss_of_a_gate_that_follows_the_prior():
    objective = objectives.ponder(CE, prior("geometric", 4, 0.3), beta=0.5)
    constant_hazard = torch.logit(torch.full((2, 3), 0.3))
    loss = objective.loss(constant_hazard, objective.evidence)
    assert loss.item() == pytest.approx(objective.baseline, rel=1e-5)


def test_the_correctness_baseline_is_the_best_constants_loss():
    objective = objectives.correctness(torch.tensor([[False, True, True], [False, False, True]]))
    share = torch.full((2, 3), 0.5)
    assert objective.loss(torch.logit(share), objective.evidence).item() == pytest.approx(
        objective.baseline
    )
    assert list(objective.loops) == [1, 2, 3]


def further_by_hand(right: list[bool], t: int) -> int:
    """Loops after t (from 1) until every loop is right; 0 where that never comes."""
    loops = range(1, len(right) + 1)
    stays = [s for s in loops if s >= t and all(right[u - 1] for u in loops if u >= s)]
    return min(stays) - t if stays else 0


@pytest.mark.parametrize("loops", [2, 5])
def test_further_loops_are_counted_to_the_first_loop_from_which_all_are_right(loops):
    every = [[bool(i >> t & 1) for t in range(loops)] for i in range(2**loops)]
    want = [[further_by_hand(right, t) for t in range(1, loops)] for right in every]
    assert objectives.further_loops(torch.tensor(every)).tolist() == want
    objective = objectives.depth(torch.tensor(every))
    assert objective.evidence.tolist() == want
    assert list(objective.loops) == list(range(1, loops))


def test_the_depth_loss_is_in_squared_loops_and_its_baseline_knows_the_loop_alone():
    correct = torch.tensor([[True] * 3, [False, False, True], [True, False, True], [False] * 3])
    objective = objectives.depth(correct)  # labels 0 0, 2 1, 2 1, 0 0
    best = torch.tensor([[1.0, 0.5]]).expand(4, 2)
    assert objective.loss(best, objective.evidence).item() == pytest.approx((1 + 0.25) / 2)
    assert objective.baseline == pytest.approx((1 + 0.25) / 2)
    assert objective.unit == "loops squared"


def test_agreement_asks_whether_each_earlier_loop_predicts_what_the_last_does():
    prediction = torch.randint(0, 3, (40, 5), generator=torch.Generator().manual_seed(0))
    objective = objectives.agreement(prediction)
    want = [[float(row[t] == row[4]) for t in range(4)] for row in prediction.tolist()]
    assert objective.evidence.tolist() == want
    assert list(objective.loops) == [1, 2, 3, 4]


def test_labels_of_one_value_ask_for_a_finite_constant():
    right, wrong = (objectives.correctness(torch.full((4, 3), c)) for c in (True, False))
    assert right.constant == pytest.approx(math.log(12.5 / 0.5))
    assert wrong.constant == pytest.approx(-math.log(12.5 / 0.5))
    assert objectives.depth(torch.ones(4, 3, dtype=torch.bool)).constant == 0.0
    mixed = torch.tensor([[False, True], [True, True]])
    for objective in (objectives.correctness(mixed), objectives.depth(mixed)):
        assert objective.constant is None
    assert objectives.ponder(torch.ones(2, 3), prior("uniform", 3), 0.1).constant is None
