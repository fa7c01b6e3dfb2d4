"""The head of a model whose logits are to be computed again from a store's states."""

import numpy as np
import torch

from trajdiag.errors import ConfigError, NonFiniteError
from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.forward import Reading, run_loops
from trajdiag.extraction.vocabulary import TOP
from trajdiag.extraction.work import Work
from trajdiag.models.base import LoopedModel
from trajdiag.models.checked import Checked
from trajdiag.store.head import GoldenBatch, SavedHead, save_head

GOLDEN = 8
"""States of the golden batch, at most."""


def head_to_keep(config: ExtractConfig, model: LoopedModel) -> SavedHead:
    """The model's head. Raises ConfigError where the stored states alone do not give its logits."""
    name, instead = model.record.name, f"use --logits topk:{min(TOP, model.vocab_size)}"
    if config.pool != "last":
        raise ConfigError(
            "--logits none recomputes logits from the state at the decision, which --pool "
            f"{config.pool} does not keep; {instead}"
        )
    head = Checked(model).saved_head()
    if head is not None:
        return head
    inherited = LoopedModel.saved_head
    if getattr(type(model), "saved_head", inherited) is inherited:
        raise ConfigError(
            f"--logits none recomputes logits by a saved head, and model {name} gives none; write "
            f"saved_head(), or {instead}"
        )
    raise ConfigError(
        "--logits none recomputes logits from the stored state, but the head of model "
        f"{name} ({model.record.family}) reads what the layers after the loop make of it; {instead}"
    )


def kept_bytes(head: SavedHead) -> int:
    """About what the head takes on disk, with its golden batch."""
    vocab_size, d_model = head.weight.shape
    return head.nbytes + GOLDEN * 4 * (vocab_size + d_model)


def head_content(model: LoopedModel, work: Work, reading: Reading, head: SavedHead) -> bytes:
    """The content of head.safetensors; its golden batch is of the shortest unit of `work`.

    Raises ConfigError where `head` does not give the logits of the model's own.
    """
    golden = _golden_batch(model, work, reading)
    if not bool(golden.logits.isfinite().all()):
        raise NonFiniteError(
            f"logits of model {model.record.name} are NaN or infinite; check its weights, or "
            "compute in another dtype"
        )
    cpu = SavedHead(
        weight=head.weight.detach().cpu(),
        bias=None if head.bias is None else head.bias.detach().cpu(),
        softcap=head.softcap,
    )
    difference = golden.difference(cpu)
    if difference is not None:
        raise ConfigError(
            f"saved_head() of model {model.record.name} is not its head: {difference}; correct it, "
            f"or use --logits topk:{min(TOP, model.vocab_size)}"
        )
    return save_head(cpu, golden, model.record.sha256)


def _golden_batch(model: LoopedModel, work: Work, reading: Reading) -> GoldenBatch:
    unit = int(work.unit_length.argmin())
    first, last = (int(example) for example in work.unit_examples[unit : unit + 2])
    examples = range(first, min(last, first + GOLDEN))
    model = Checked(model)
    with torch.inference_mode():
        read = run_loops(model, work, np.array([unit]), examples, reading)
        # of all that was read, some from every part
        states, inputs = (
            torch.stack(x, 1).flatten(0, 1) for x in (read.loops["hidden"], read.decision)
        )
        some = torch.linspace(0, len(states) - 1, min(GOLDEN, len(states))).long()
        some = some.to(states.device)
        logits = model.head(inputs[some])
    return GoldenBatch(states=states[some].cpu(), logits=logits.cpu())
