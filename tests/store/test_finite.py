"""NaN and infinity are found in every dtype, and nothing else is taken for them."""

import numpy as np
import pytest
import torch

from trajdiag.store.finite import first_non_finite

FLOATS = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def bits(tensor, dtype):
    """As a store keeps it."""
    return tensor.view(torch.uint16).numpy() if dtype == "bfloat16" else tensor.numpy()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_the_first_row_that_holds_one_is_told(dtype, bad):
    values = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)).to(FLOATS[dtype])
    assert first_non_finite(bits(values, dtype), dtype) is None
    values[31, 2] = values[40, 0] = bad
    assert first_non_finite(bits(values, dtype), dtype) == 31


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_16_bit_pattern_is_judged_as_torch_does(dtype):
    patterns = np.arange(2**16, dtype=np.uint16)
    if dtype == "float32":
        patterns = patterns.astype(np.uint32) << 16 | 1
    tensor = torch.from_numpy(patterns).view(FLOATS[dtype])
    values = bits(tensor, dtype)
    found = [first_non_finite(values[i : i + 1], dtype) is None for i in range(len(values))]
    assert found == torch.isfinite(tensor).tolist()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_whole_numbers_are_finite(dtype):
    info = np.iinfo(dtype)
    assert first_non_finite(np.array([[info.min, info.max]], dtype), dtype) is None


def test_nothing_holds_none():
    assert first_non_finite(np.empty((0, 3), np.float32), "float32") is None


def test_float64_is_judged_too():
    values = np.array([[1e308], [-np.inf]])
    assert first_non_finite(values, "float64") == 1
    assert first_non_finite(values[:1], "float64") is None
