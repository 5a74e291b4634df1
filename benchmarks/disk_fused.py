"""A copy of a checkpoint's experts as the stock modules hold them, to be mapped into memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

PARTS = ("gate_up_proj", "down_proj")


def write_fused(store: Any, file: Path) -> None:
    """Write all experts of a `DiskStore` as tensors ``LAYER.gate_up_proj`` and ``LAYER.down_proj``.

    Parameters
    ----------
    store
        Experts on disk.
    file
        The new safetensors file; it appears when it is whole.
    """
    header: dict[str, Any] = {}
    position = 0
    item_bytes = torch.empty(0, dtype=store.dtype).element_size()
    names = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}
    for layer in range(store.layers):
        row = store.views(layer, store.load_row(layer, 0))
        for part in PARTS:
            size = store.experts * row[part].numel() * item_bytes
            header[f"{layer}.{part}"] = {
                "dtype": names[store.dtype],
                "shape": [store.experts, *row[part].shape],
                "data_offsets": [position, position + size],
            }
            position += size
    text = json.dumps(header, separators=(",", ":")).encode()
    # Page-aligned data: what the maps touch is then whole pages of the experts.
    text += b" " * (-(len(text) + 8) % 4096)
    partial = file.with_name(file.name + ".partial")
    with open(partial, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for layer in range(store.layers):
            rows = [store.views(layer, store.load_row(layer, expert)) for expert in range(store.experts)]
            for part in PARTS:
                for row in rows:
                    stream.write(row[part].contiguous().view(torch.uint8).numpy().data)
        stream.flush()
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    partial.rename(file)
