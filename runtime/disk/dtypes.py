"""Element types by the names that safetensors files use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# Bytes of one element. Types of less than a byte are left out: a tensor of them has no whole-byte elements.
ITEM_BYTES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "U16": 2,
    "I16": 2,
    "F16": 2,
    "BF16": 2,
    "U32": 4,
    "I32": 4,
    "F32": 4,
    "U64": 8,
    "I64": 8,
    "F64": 8,
    "C64": 8,
}

_TORCH_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
}

# What expert weights may be stored in; anything else is a quantised format with scales of its own.
PLAIN_FLOATS = ("F64", "F32", "F16", "BF16")


def torch_dtype(name: str) -> torch.dtype:
    """The torch type of a safetensors name.

    Raises
    ------
    ValueError
        When the installed torch has no such type.
    """
    import torch

    dtype = getattr(torch, _TORCH_NAMES[name], None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"expected a torch with {_TORCH_NAMES[name]}, got {torch.__version__}: update torch")
    return dtype
