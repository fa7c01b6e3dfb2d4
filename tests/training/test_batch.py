"""Packed training rows: what is asked for, and where."""

import numpy as np
import torch

from trajdiag.tasks.base import IGNORE, TrainingGroup
from trajdiag.training.batch import pack

SHORT = TrainingGroup(
    input_ids=np.array([[8, 5], [8, 6]]),
    target=np.array([1, 0]),
    dense=np.full((2, 2), IGNORE),
    difficulty=1,
)
NONE = TrainingGroup(
    input_ids=np.zeros((0, 3), np.int64),
    target=np.zeros(0, np.int64),
    dense=np.zeros((0, 3), np.int64),
    difficulty=2,
)
LONG = TrainingGroup(
    input_ids=np.array([[8, 5, 7, 6]]),
    target=np.array([2]),
    dense=np.array([[IGNORE, 0, 1, IGNORE]]),
    difficulty=3,
)


def test_answers_are_read_at_each_rows_last_token_and_dense_labels_at_their_own() -> None:
    batch = pack([SHORT, NONE, LONG], np.array([10, 11, 12]), True, torch.device("cpu"))
    assert [group.tolist() for group in batch.groups] == [[[8, 5], [8, 6]], [[8, 5, 7, 6]]]
    assert batch.rows == 3
    assert batch.read_at.tolist() == [1, 3, 7, 5, 6]
    assert batch.target.tolist() == [11, 10, 12, 10, 11]
    assert batch.difficulty.tolist() == [1, 1, 3]


def test_without_dense_labels_only_answers_are_asked_for() -> None:
    batch = pack([SHORT, LONG], None, False, torch.device("cpu"))
    assert batch.read_at.tolist() == [1, 3, 7]
    assert batch.target.tolist() == [1, 0, 2]
