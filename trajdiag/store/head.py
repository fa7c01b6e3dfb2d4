"""A model's head, kept with a store: the vocabulary's logits are computed again from its states.

Beside the head stands a golden batch: states and the logits that the model itself gave for them,
with which the head is compared before it is believed.
"""

import hashlib
import json
from dataclasses import dataclass

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor
from torch.nn.functional import linear

from trajdiag.errors import StoreError
from trajdiag.store.record import REPAIR
from trajdiag.store.schema import HEAD

VERSION = 1
_METADATA = "trajdiag_head"
TOLERANCE = 1e-5
"""How far logits computed again may lie from the model's own, by the largest absolute logit of the
golden batch: float32 sums in another order differ by some 3e-6 at a width of 2048."""
FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""What a head's weights may be."""
_ROWS = 1024
"""Rows of the weight that are widened to float32 at a time: few enough for their memory to be used
again, since to touch fresh memory costs more than the product."""


@dataclass(frozen=True, kw_only=True)
class SavedHead:
    """A head that reads nothing but the stored state x: z = weight x + bias, and with a `softcap`
    c, c tanh(z / c); in float32."""

    weight: Tensor
    """[vocab, d_model], of the dtype that the model keeps it in."""
    bias: Tensor | None = None
    """[vocab]."""
    softcap: float | None = None

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes + (0 if self.bias is None else self.bias.nbytes)

    def logits(self, states: Tensor) -> Tensor:
        """float32 [..., vocab] of `states` [..., d_model], on their device.

        Beside states and logits in float32 it holds a piece of the weight, never all of it.
        """
        x = states.float()
        found = x.new_empty(*x.shape[:-1], len(self.weight))
        for start in range(0, len(self.weight), _ROWS):
            rows = slice(start, start + _ROWS)
            bias = None if self.bias is None else self.bias[rows].to(x)
            found[..., rows] = linear(x, self.weight[rows].to(x), bias)
        if self.softcap is not None:
            found.div_(self.softcap).tanh_().mul_(self.softcap)
        return found


@dataclass(frozen=True, kw_only=True)
class GoldenBatch:
    """A few states, and what the model's own head made of them at extraction."""

    states: Tensor
    """[state, d_model], of the store's dtype."""
    logits: Tensor
    """float32 [state, vocab]."""

    def difference(self, head: SavedHead) -> str | None:
        """Where `head` gives other logits, beyond TOLERANCE; None where it does not."""
        found = head.logits(self.states)
        allowed = TOLERANCE * float(self.logits.abs().max())
        apart = (found - self.logits).abs()
        if bool((apart <= allowed).all()):
            return None
        state, token = divmod(int(apart.argmax()), apart.shape[1])
        return (
            f"the logit of token {token} of golden state {state} is "
            f"{float(found[state, token]):.6g}, the model gave "
            f"{float(self.logits[state, token]):.6g} (they may differ by {allowed:.1g})"
        )


def save_head(head: SavedHead, golden: GoldenBatch, model_sha256: str) -> bytes:
    """The content of head.safetensors, of the model whose weights have this hash."""
    tensors = {"weight": head.weight, "golden_states": golden.states}
    tensors["golden_logits"] = golden.logits
    if head.bias is not None:
        tensors["bias"] = head.bias.clone()
    tensors = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
    said = {
        "version": VERSION,
        "model_sha256": model_sha256,
        "softcap": head.softcap,
        "sha256": _sha256(tensors),
    }
    # one entry: the library writes several in an order of its own each time
    return save(tensors, {_METADATA: json.dumps(said, sort_keys=True)})


def load_head(content: bytes, *, store: str, model_sha256: str) -> SavedHead:
    """The head in the content of a head.safetensors, once its golden batch agrees.

    Raises StoreError, naming the `store`, where the file is damaged, of another version or of a
    model of another hash, and where the golden batch's logits are not what it gives.
    """
    damaged = f"{HEAD} of store {store} is damaged"
    try:
        tensors = load(content)
        length = int.from_bytes(content[:8], "little")
        said = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][_METADATA])
        version = said["version"]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{damaged}: {error}; {REPAIR}") from None
    if version != VERSION:
        raise StoreError(
            f"{HEAD} of store {store} has version {version}, this trajdiag reads {VERSION}; use "
            "the version that made it, or extract again"
        )
    try:
        model, recorded, softcap = (said[key] for key in ("model_sha256", "sha256", "softcap"))
        head = SavedHead(
            weight=tensors["weight"],
            bias=tensors.get("bias"),
            softcap=None if softcap is None else float(softcap),
        )
        golden = GoldenBatch(states=tensors["golden_states"], logits=tensors["golden_logits"])
        if not isinstance(model, str):
            raise ValueError("it names no model")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"{damaged}: {error}; {REPAIR}") from None
    if model != model_sha256:
        raise StoreError(
            f"{HEAD} of store {store} is of the model {model:.12}, its states are of "
            f"{model_sha256[:12]}; {REPAIR}"
        )
    if _sha256(tensors) != recorded:
        raise StoreError(f"{damaged}: it is not what was written; {REPAIR}")
    difference = golden.difference(head)
    if difference is not None:
        raise StoreError(
            f"{HEAD} of store {store} does not give the model's logits: {difference}; {REPAIR}"
        )
    return head


def _sha256(tensors: dict[str, Tensor]) -> str:
    """SHA-256 over each tensor's name, dtype, shape and bytes, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        x = tensors[name].contiguous()
        said = [name, str(x.dtype).removeprefix("torch."), list(x.shape)]
        digest.update(json.dumps(said).encode())
        digest.update(x.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
