"""Text that is given, decoded token by token: what exits do to the tokens that come after them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trajdiag.extraction.work import Work, found_in
from trajdiag.latency.cached_rows import CachedRows, Context
from trajdiag.latency.rule import LiveRule
from trajdiag.models.ouro import OuroModel
from trajdiag.store.device_copies import at_home


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What decoding gave. Every token is decoded; examples are those that the work reads."""

    exit_depth: NDArray[np.int16]
    """[example]: the loop at which its token left."""
    prediction: NDArray[np.int64]
    """[example]: the token that is likeliest there, the first of equals."""
    tokens: int
    depth: float
    """The mean of the exit depths of all tokens, loops."""
    loops_run: float
    """Loops that a token went through on average, those for the cache alone included."""


Around = Callable[[], AbstractContextManager[None]]
"""What each pass through a loop is inside."""


def decode_given(
    model: OuroModel,
    work: Work,
    rule: LiveRule,
    context: Context,
    *,
    batch_tokens: int,
    around_loops: Around = nullcontext,
) -> Decoded:
    """Decode the rows of running text, each token given whatever was predicted of it, side by side
    as far as `batch_tokens` tokens go.

    Raises ConfigError where the rule reads what text has not, NonFiniteError naming the example,
    the position and the loop where a number that is read is NaN or infinite.
    """
    depth = np.zeros(len(work), np.int16)
    prediction = np.zeros(len(work), np.int64)
    total, loops_run = 0, 0
    for rows in _side_by_side(work.row_length, batch_tokens):
        by_row, predicted, cached = _decoded(model, work, rule, context, rows, around_loops)
        numbers = np.flatnonzero(np.isin(work.row, rows))
        at = found_in(rows, work.row[numbers]), work.at[numbers]
        depth[numbers], prediction[numbers] = by_row[at], predicted[at]
        total += int(by_row.sum())
        loops_run += int(cached.loops_run.sum())
    return Decoded(
        exit_depth=depth,
        prediction=prediction,
        tokens=len(work.tokens),
        depth=total / len(work.tokens),
        loops_run=loops_run / len(work.tokens),
    )


def _side_by_side(length: np.ndarray, batch_tokens: int) -> Iterator[np.ndarray]:
    """Rows of `length` [row], longest first, as many together as the tokens allow. A row that has
    ended costs nothing, so that lengths may differ; those that go on are then the first ones, which
    the cache reads without a copy."""
    order = np.argsort(-length, kind="stable")
    while len(order):
        count = max(1, batch_tokens // int(length[order[0]]))
        yield order[:count]
        order = order[count:]


def _decoded(
    model: OuroModel,
    work: Work,
    rule: LiveRule,
    context: Context,
    rows: np.ndarray,
    around_loops: Around,
) -> tuple[NDArray[np.int16], NDArray[np.int64], CachedRows]:
    """Exit depths and predictions, [row, position], of rows of which the longest comes first."""
    length = work.row_length[rows]
    tokens = _padded(work, rows).to(model.device)
    cached = CachedRows(
        model,
        rule,
        context,
        rows=len(rows),
        name=lambda row: f"the row of example {work.columns.id[work.row == rows[row]][0]}",
        positions=tokens.shape[1],
        around_loops=around_loops,
    )
    depth = np.zeros(tokens.shape, np.int16)
    prediction = torch.zeros_like(tokens)
    for position in range(tokens.shape[1]):
        going = np.arange(int((length > position).sum()))
        exits = cached.step(going, tokens[: len(going), position])
        depth[going, position] = exits.depth
        prediction[: len(going), position] = exits.prediction
    return depth, at_home(prediction).numpy(), cached


def _padded(work: Work, rows: np.ndarray) -> Tensor:
    """int64 [row, position]."""
    start, length = work.row_start[rows], work.row_length[rows]
    position = np.arange(length.max())
    place = np.minimum(start[:, None] + position, len(work.tokens) - 1)
    return torch.from_numpy(np.where(position < length[:, None], work.tokens[place], 0)).long()
