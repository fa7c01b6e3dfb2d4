"""Ouro a second time: float64 numpy, one row and one query at a time, from the formulas."""

import numpy as np

from trajdiag.models.config import OuroConfig


def run(
    config: OuroConfig, tensors: dict[str, np.ndarray], tokens: list[int], loops: int
) -> tuple[np.ndarray, np.ndarray]:
    """hidden [position, loop, d_model] and logits [position, loop, vocab] of one row."""
    embedding = tensors["model.embed_tokens.weight"]
    head = embedding if config.tie_word_embeddings else tensors["lm_head.weight"]
    x = embedding[tokens]
    hidden = []
    for _ in range(loops):
        for layer in range(config.num_hidden_layers):
            x = _layer(config, tensors, f"model.layers.{layer}.", x)
        x = _norm(x, tensors["model.norm.weight"], config.rms_norm_eps)
        hidden.append(x)
    states = np.stack(hidden, axis=1)
    return states, states @ head.T


def _layer(config, tensors, prefix, x):
    def norm(name, y):
        return _norm(y, tensors[f"{prefix}{name}.weight"], config.rms_norm_eps)

    def project(name, y):
        return y @ tensors[f"{prefix}{name}.weight"].T

    y = norm("input_layernorm", x)
    dim, group = config.head_dim, config.num_attention_heads // config.num_key_value_heads
    queries = project("self_attn.q_proj", y).reshape(len(x), -1, dim)
    keys = project("self_attn.k_proj", y).reshape(len(x), -1, dim)
    values = project("self_attn.v_proj", y).reshape(len(x), -1, dim)
    attended = np.zeros_like(queries)
    for head in range(config.num_attention_heads):
        for i in range(len(x)):
            query = _rotated(config, queries[i, head], i)
            scores = np.array(
                [query @ _rotated(config, keys[j, head // group], j) for j in range(i + 1)]
            ) / np.sqrt(dim)
            weights = np.exp(scores - scores.max())
            attended[i, head] = weights / weights.sum() @ values[: i + 1, head // group]
    attended = project("self_attn.o_proj", attended.reshape(len(x), -1))
    x = x + norm("input_layernorm_2", attended)
    y = norm("post_attention_layernorm", x)
    gate = project("mlp.gate_proj", y)
    fed = project("mlp.down_proj", gate / (1 + np.exp(-gate)) * project("mlp.up_proj", y))
    return x + norm("post_attention_layernorm_2", fed)


def _norm(x, weight, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def _rotated(config, vector, position):
    half = config.head_dim // 2
    result = np.empty_like(vector)
    for i in range(half):
        angle = position * config.rope_theta ** (-2 * i / config.head_dim)
        a, b = vector[i], vector[i + half]
        result[i] = a * np.cos(angle) - b * np.sin(angle)
        result[i + half] = b * np.cos(angle) + a * np.sin(angle)
    return result
