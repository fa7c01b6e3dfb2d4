"""Tiny models of the families that transformers implements, in folders, every tensor of them at
work: their default initialisation would hide most mistakes."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trajdiag.models import dory, hrm_text, inkling2_loop_text
from trajdiag.models.base import Tokenizer
from trajdiag.models.native import NativeModel
from trajdiag.models.native_weights import quiet
from trajdiag.models.source import ModelSource

FAMILIES = ("dory", "hrm_text", "inkling2_loop_text")
LOOPS = {
    "dory": "n_recurrent_loops",
    "hrm_text": "H_cycles",
    "inkling2_loop_text": "loop_num_passes",
}
"""The key of config.json that holds the number of loops."""
_LOADERS = {
    "dory": dory.load,
    "hrm_text": hrm_text.load,
    "inkling2_loop_text": inkling2_loop_text.load,
}
_CONFIGS: dict[str, dict[str, Any]] = {
    "dory": {
        "vocab_size": 50,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "n_input_layers": 1,
        "n_output_layers": 1,
        "n_recurrent_loops": 3,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "sliding_window": 4,
        "ngpt_alpha_init": 0.4,
        "max_position_embeddings": 64,
    },
    "hrm_text": {
        "vocab_size": 50,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "head_dim": 8,
        "H_cycles": 3,
        "L_cycles": 2,
        "max_position_embeddings": 64,
    },
    "inkling2_loop_text": {
        "vocab_size": 52,
        "unpadded_vocab_size": 50,
        "hidden_size": 32,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "swa_head_dim": 8,
        "sliding_window_size": 4,
        "d_rel": 4,
        "rel_extent": 6,
        "log_scaling_n_floor": 3,
        "layer_types": ["hybrid_sliding", "hybrid"] * 4,
        "moe_intermediate_size": 16,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "route_scale": 2.0,
        "n_layers_per_attn_res_block": 2,
        "loop_layer_index_start": 2,
        "loop_layer_index_end": 6,
        "loop_num_passes": 3,
        "loop_gate_rank": 8,
        "max_position_embeddings": 64,
        "eos_token_id": 0,
    },
}
"""Both kinds of attention where there are two, windows shorter than the tests' rows, layers on both
sides of the loop, and a number of loops that is no family's default but inkling's."""


def tiny(
    family: str, folder: Path, *, dtype: torch.dtype = torch.float32, seed: int = 0, **config: Any
) -> Path:
    """Write a tiny model into `folder`; `config` replaces any of its configuration."""
    from transformers import AutoConfig, AutoModelForCausalLM

    changed = _CONFIGS[family] | config
    if "vocab_size" in config and family == "inkling2_loop_text":
        changed = {"unpadded_vocab_size": config["vocab_size"]} | config
        changed = _CONFIGS[family] | changed
    with quiet():
        network = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **changed))
        _perturb(network, torch.Generator().manual_seed(seed))
        network.to(dtype).save_pretrained(folder)
    return folder


def opened(family: str, folder: Path, dtype: torch.dtype | None = None) -> NativeModel:
    """The model in `folder` through the family's own loader."""
    return _LOADERS[family](source(folder, dtype))


def source(
    folder: Path, dtype: torch.dtype | None = None, tokenizer: Tokenizer | None = None
) -> ModelSource:
    return ModelSource(
        folder=folder,
        name="tiny",
        source="local",
        revision=None,
        device=torch.device("cpu"),
        dtype=dtype,
        tokenizer=tokenizer,
    )


def published_logits(
    family: str, folder: Path, loops: int, ids: Tensor, mask: Tensor | None = None
) -> Tensor:
    """float32 [row, position, vocab]: transformers' own forward, configured for `loops` loops."""
    from transformers import AutoModelForCausalLM

    with quiet():
        network = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, **{LOOPS[family]: loops}
        )
    mask = torch.ones_like(ids) if mask is None else mask
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    assert getattr(network.config, LOOPS[family]) == loops
    with torch.inference_mode(), quiet():
        return network(
            ids, attention_mask=mask, position_ids=positions, use_cache=False
        ).logits.float()


def _perturb(network: Any, generator: torch.Generator) -> None:
    tensors = [*network.parameters(), *(b for n, b in network.named_buffers() if "bias" in n)]
    with torch.no_grad():
        for tensor in tensors:
            noise = torch.randn(tensor.shape, generator=generator)
            if tensor.ndim > 1:
                tensor.copy_(noise / tensor.shape[-1] ** 0.5)
            elif tensor.any():
                tensor.mul_(1 + 0.3 * noise)
            else:
                tensor.copy_(0.5 * noise)
