"""Finding NaN and infinity in values as they are stored, about as fast as memory is read."""

import numpy as np

_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000}
"""Bit patterns: whatever is as large or larger, but for the sign bit, is infinity or NaN."""


def first_non_finite(values: np.ndarray, dtype: str) -> int | None:
    """The first row of `values` [row, ...] that holds NaN or infinity; `dtype` as in ArraySpec.

    None where there is none. Two maxima of the bits as whole numbers find out without memory for
    intermediate results.
    """
    if not values.size or np.dtype(values.dtype).kind not in "fu" or dtype.startswith("uint"):
        return None
    if dtype in _INFINITY and values.dtype.isnative:
        signed = values.view(f"i{values.itemsize}")
        unsigned = values.view(f"u{values.itemsize}")
        positive = _INFINITY[dtype]
        negative = positive + 2 ** (8 * values.itemsize - 1)
        if signed.max() < positive and unsigned.max() < negative:
            return None
        bad = (unsigned & positive) == positive
    else:
        bad = ~np.isfinite(values)
    rows = bad.reshape(len(values), -1).any(1)
    return int(rows.argmax()) if rows.any() else None
