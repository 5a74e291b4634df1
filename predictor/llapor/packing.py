"""Arrays in fewer bits, for checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.predictor.checkpoint_files import Arrays

_SCALE = ".scale"
_SMALL = 4096


def pack(name: str, array: npt.NDArray[np.floating[Any]], *, compact: bool) -> Arrays:
    """An array by its name in half precision; if ``compact``, large ones as int8 with a scale per row."""
    if not compact or array.ndim < 2 or array.size < _SMALL:
        return {name: array.astype(np.float16)}
    scale = np.abs(array).max(axis=-1, keepdims=True).astype(np.float32) / 127.0
    steps = np.rint(array / np.where(scale > 0, scale, 1.0))
    return {name: steps.astype(np.int8), name + _SCALE: scale}


def unpack(arrays: Arrays) -> Arrays:
    """All arrays in single precision, scaled where they were packed.

    Raises
    ------
    ValueError
        When a packed array has no scale of a fitting shape.
    """
    found: Arrays = {}
    for name, array in arrays.items():
        if name.endswith(_SCALE):
            continue
        whole = array.astype(np.float32)
        if array.dtype == np.int8:
            scale = arrays.get(name + _SCALE)
            if scale is None or scale.shape != (*array.shape[:-1], 1):
                raise ValueError(f"expected a scale for every row of {name}, got none")
            whole = whole * scale.astype(np.float32)
        found[name] = whole
    return found
