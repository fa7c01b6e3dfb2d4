"""Huginn a second time: float64 numpy, one row and one query at a time, from the formulas."""

import numpy as np

from trajdiag.models.huginn_config import HuginnConfig


def run(
    config: HuginnConfig,
    tensors: dict[str, np.ndarray],
    tokens: list[int],
    initial: np.ndarray,
    loops: int,
    positions: list[int] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States and head inputs [position, loop, d_model], and logits [position, loop, vocab], of one
    row that starts from `initial` [position, d_model]."""
    at = list(range(len(tokens))) if positions is None else positions

    def stack(part, count, x):
        for number in range(count):
            x = _block(config, tensors, f"transformer.{part}.{number}.", x, at)
        return x

    def final(x):
        return _norm(x, tensors["transformer.ln_f.weight"], config.norm_eps)

    embedding = tensors["transformer.wte.weight"]
    head = embedding if config.tie_embeddings else tensors["lm_head.weight"]
    injected = stack("prelude", config.n_layers_in_prelude, embedding[tokens] * config.n_embd**0.5)
    x, states, read = initial, [], []
    for _ in range(loops):
        x = np.concatenate([x, injected], axis=1) @ tensors["transformer.adapter.weight"].T
        x = x + tensors.get("transformer.adapter.bias", 0.0)
        x = stack("core_block", config.n_layers_in_recurrent_block, x)
        states.append(x)
        read.append(final(stack("coda", config.n_layers_in_coda, final(x))))
    return np.stack(states, 1), np.stack(read, 1), np.stack(read, 1) @ head.T


def _block(config, tensors, prefix, x, at):
    def norm(number, y):
        return _norm(y, tensors[f"{prefix}norm_{number}.weight"], config.norm_eps)

    attended = _attention(config, tensors, prefix, norm(1, x), at)
    x = norm(2, attended @ tensors[f"{prefix}attn.proj.weight"].T + x)
    fed = norm(3, x) @ tensors[f"{prefix}mlp.fc.weight"].T
    gate, up = fed[:, : config.intermediate_size], fed[:, config.intermediate_size :]
    fed = (gate / (1 + np.exp(-gate)) * up) @ tensors[f"{prefix}mlp.proj.weight"].T
    return norm(4, fed + x)


def _attention(config, tensors, prefix, x, at):
    width, dim = config.n_embd, config.n_embd // config.n_heads
    weight = tensors[f"{prefix}attn.Wqkv.weight"]
    attended = np.zeros_like(x)
    for head in range(config.n_heads):
        part = slice(head * dim, (head + 1) * dim)
        queries, keys, values = (
            x @ weight[start : start + width][part].T for start in (0, width, 2 * width)
        )
        if config.qk_bias:
            bias = tensors[f"{prefix}attn.qk_bias"]
            queries, keys = queries + bias[0, 0, head], keys + bias[1, 0, head]
        for i in range(len(x)):
            query = _rotated(config, queries[i], at[i])
            scores = np.array([query @ _rotated(config, keys[j], at[j]) for j in range(i + 1)])
            weights = np.exp((scores - scores.max()) / np.sqrt(dim))
            attended[i, part] = weights / weights.sum() @ values[: i + 1]
    return attended


def _norm(x, weight, eps):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def _rotated(config, vector, position):
    result = np.empty_like(vector)
    for i in range(0, len(vector), 2):
        angle = position * config.rope_base ** (-i / len(vector))
        a, b = vector[i], vector[i + 1]
        result[i] = a * np.cos(angle) - b * np.sin(angle)
        result[i + 1] = b * np.cos(angle) + a * np.sin(angle)
    return result
