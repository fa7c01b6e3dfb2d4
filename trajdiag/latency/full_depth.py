"""The forward that early exit is to save: all loops, and the prediction at their end."""

import numpy as np
import torch
from numpy.typing import NDArray

from trajdiag.extraction.batching import TokenBudget, batch_of, batches
from trajdiag.extraction.forward import begun
from trajdiag.extraction.places import places_of
from trajdiag.extraction.work import Work
from trajdiag.models.base import LoopedModel
from trajdiag.store.device_copies import at_home


@torch.inference_mode()
def run_full_depth(
    model: LoopedModel, work: Work, loops: int, *, batch_tokens: int
) -> NDArray[np.int64]:
    """The predictions of the last loop, [example]: batch by batch through `loops` loops, with
    nothing read before their end and nothing of the engine of live exits."""
    prediction = torch.empty(len(work), dtype=torch.int64, device=model.device)
    length, rows = work.unit_length, np.diff(work.unit_rows)
    pads = "right" in model.padding
    for units in batches(length, rows, TokenBudget(batch_tokens), pads=pads):
        batch, numbers = batch_of(work, units), work.examples(units)
        places = places_of(work, numbers, batch.rows, model.device)
        state = begun(model, batch)
        for _ in range(loops):
            state = model.step(state)
        where = torch.from_numpy(numbers).to(model.device)
        prediction[where] = places.task_logits(model, state).argmax(1)
    return at_home(prediction).numpy()
