"""What is kept of the whole vocabulary's logits at a decision."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trajdiag.errors import ConfigError
from trajdiag.store.schema import HEAD, VOCABULARY, largest_kept

TOP = 64
"""The largest logits that are kept where all are too many."""


def statistics(z: Tensor, target: Tensor | None) -> dict[str, Tensor]:
    """Log-sum-exp, entropy (nats) and, given `target` int64 [row], its log-probability, float32
    [row] each, of `z` [row, vocab]; computed in float64."""
    z = exact(z)
    log_sum_exp = z.logsumexp(1)
    log_p = z - log_sum_exp[:, None]
    found = {"log_sum_exp": log_sum_exp, "entropy": -(log_p.exp() * log_p).sum(1)}
    if target is not None:
        found["target_log_probability"] = log_p.gather(1, target.to(z.device)[:, None])[:, 0]
    return {VOCABULARY + name: values.float() for name, values in found.items()}


def exact(z: Tensor) -> Tensor:
    """`z` in float64, on the CPU where its device has none."""
    return (z.cpu() if z.device.type == "mps" else z).double()


def largest(z: Tensor, count: int) -> dict[str, Tensor]:
    """The `count` largest of `z` [row, vocab] and their ids, largest first, the lower id first
    among equals: [row, rank]."""
    ids = z.topk(count, dim=1).indices
    least = z.gather(1, ids).amin(1, keepdim=True)
    # where equals stand on both sides of the border, topk takes any of them
    torn = ((z >= least).sum(1) > count).nonzero()[:, 0]
    if len(torn):
        ids[torn] = z[torn].sort(dim=1, descending=True, stable=True).indices[:, :count]
    ids = ids.sort(dim=1).values
    values, order = z.gather(1, ids).sort(dim=1, descending=True, stable=True)
    return {
        VOCABULARY + "top_logits": values,
        VOCABULARY + "top_ids": ids.gather(1, order).to(torch.int32),
    }


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Which logits of the vocabulary a store keeps, and why."""

    logits: str | None
    """`full`, `topk:K` or `none`; None for nothing of the vocabulary, statistics included."""
    said: str
    """A line for the user; empty where there was nothing to decide."""


def choose(asked: str, *, vocab_size: int, examples: int, loops: int, budget: float) -> Kept:
    """Resolve `--logits`: `auto` keeps all where they take at most `budget` GiB, else the top 64.

    Raises ConfigError for anything that is not `auto`, `full`, `none` or `topk:K` with K in the
    vocabulary.
    """
    size = 4 * vocab_size * examples * loops / 2**30
    if asked == "auto":
        small = size <= budget
        logits = "full" if small else f"topk:{min(TOP, vocab_size)}"
        why = f"{size:,.2f} GiB are {'within' if small else 'above'} --logits-budget {budget:g}"
    else:
        logits, why = asked, "as asked"
        number = asked.removeprefix("topk:")
        top = asked.startswith("topk:") and number.isdecimal() and 1 <= int(number) <= vocab_size
        if asked not in ("full", "none") and not top:
            raise ConfigError(
                f"logits must be auto, full, none or topk:K with K from 1 to {vocab_size}, got "
                f"{asked!r}"
            )
    if logits == "none":
        return Kept(logits=logits, said=f"logits of the vocabulary: none, recomputed from {HEAD}")
    share = 1 if logits == "full" else 2 * largest_kept(logits, vocab_size) / vocab_size
    return Kept(
        logits=logits,
        said=f"logits of the vocabulary: {logits} ({why}), {share * size * 1024:,.1f} MiB",
    )
