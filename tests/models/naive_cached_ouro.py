"""Ouro token by token, a third time: float64 numpy, each loop and layer with lists of its keys and
values, from the formulas."""

from collections.abc import Callable

import numpy as np

from tests.models.naive_ouro import _norm, _rotated
from trajdiag.models.decoder import OuroDecoder

Leaves = Callable[[list[np.ndarray], list[np.ndarray]], bool]
"""Whether to leave, of the states and the logits of the loops so far."""


def decode(
    decoder: OuroDecoder, tokens: list[int], leaves: Leaves, copies: bool
) -> tuple[list[int], np.ndarray]:
    """The loop at which each token leaves, and the logits there, [token, vocab]. A token that has
    left goes on to the last loop for the keys and values alone, or else `copies` those of its last
    loop to all deeper ones."""
    config = decoder.config
    weights = {
        name: tensor.detach().double().numpy() for name, tensor in decoder.state_dict().items()
    }
    embedding = weights["model.embed_tokens.weight"]
    head = embedding if config.tie_word_embeddings else weights["lm_head.weight"]
    loops, layers = config.total_ut_steps, config.num_hidden_layers
    keys = [[[] for _ in range(layers)] for _ in range(loops)]
    values = [[[] for _ in range(layers)] for _ in range(loops)]
    depth, found = [], []
    for position, token in enumerate(tokens):
        x, states, logits, left = embedding[token], [], [], 0
        for loop in range(loops):
            if copies and left:
                for layer in range(layers):
                    keys[loop][layer].append(keys[left - 1][layer][-1])
                    values[loop][layer].append(values[left - 1][layer][-1])
                continue
            for layer in range(layers):
                x = _layer(config, weights, layer, x, position, keys[loop], values[loop])
            x = _norm(x, weights["model.norm.weight"], config.rms_norm_eps)
            states.append(x)
            logits.append(head @ x)
            if not left and (loop == loops - 1 or leaves(states, logits)):
                left = loop + 1
        depth.append(left)
        found.append(logits[left - 1])
    return depth, np.array(found)


def _layer(config, weights, layer, x, position, keys, values):
    def norm(name, y):
        return _norm(y, weights[f"model.layers.{layer}.{name}.weight"], config.rms_norm_eps)

    def project(name, y):
        return weights[f"model.layers.{layer}.{name}.weight"] @ y

    y = norm("input_layernorm", x)
    dim, group = config.head_dim, config.num_attention_heads // config.num_key_value_heads
    queries = project("self_attn.q_proj", y).reshape(-1, dim)
    own = project("self_attn.k_proj", y).reshape(-1, dim)
    keys[layer].append(np.array([_rotated(config, key, position) for key in own]))
    values[layer].append(project("self_attn.v_proj", y).reshape(-1, dim))
    attended = []
    for head, query in enumerate(queries):
        turned = _rotated(config, query, position)
        scores = np.array([turned @ key[head // group] for key in keys[layer]]) / np.sqrt(dim)
        share = np.exp(scores - scores.max())
        seen = np.array([value[head // group] for value in values[layer]])
        attended.append(share / share.sum() @ seen)
    x = x + norm("input_layernorm_2", project("self_attn.o_proj", np.concatenate(attended)))
    y = norm("post_attention_layernorm", x)
    gate = project("mlp.gate_proj", y)
    fed = project("mlp.down_proj", gate / (1 + np.exp(-gate)) * project("mlp.up_proj", y))
    return x + norm("post_attention_layernorm_2", fed)
