"""What measuring needs of a store of experts on disk, and experts in memory to compute with."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Several times the last-level cache of most machines: an expert computed with must not linger there.
_ROTATED_BYTES = 256 * 2**20


class StoredExperts(Protocol):
    """A store that reads single experts, as `prescope.runtime.disk.DiskStore` does."""

    @property
    def layers(self) -> int:
        """Number of MoE layers."""

    @property
    def experts(self) -> int:
        """Experts per layer."""

    @property
    def dtype(self) -> torch.dtype:
        """Element type of a row in memory."""

    @property
    def direct(self) -> bool:
        """Whether reads go past the page cache."""

    def row_bytes(self, layer: int) -> int:
        """Bytes of one expert in memory."""

    def slot_elements(self, layer: int) -> int:
        """Elements of memory that an expert is read into."""

    def place(self, layer: int, expert: int, slot: Tensor) -> Tensor:
        """The row inside a slot that an expert is read into."""

    def read(self, layer: int, expert: int, row: Tensor) -> int:
        """Read an expert."""

    def views(self, layer: int, row: Tensor) -> Mapping[str, Tensor]:
        """The parts of a row."""


def shuffled_experts(store: StoredExperts, seed: int) -> list[tuple[int, int]]:
    """All experts as ``(layer, expert)`` in random order."""
    order = [(layer, expert) for layer in range(store.layers) for expert in range(store.experts)]
    random.Random(seed).shuffle(order)
    return order


def experts_in_memory(store: StoredExperts, seed: int) -> list[Mapping[str, Tensor]]:
    """The parts of as many experts as outgrow every cache (256 MiB), or of all.

    They lie in one block, as in an engine's arena.
    """
    import torch

    chosen, total_bytes = [], 0
    for layer, expert in shuffled_experts(store, seed):
        chosen.append((layer, expert))
        total_bytes += store.row_bytes(layer)
        if total_bytes >= _ROTATED_BYTES:
            break
    width = max(store.slot_elements(layer) for layer in range(store.layers))
    block = torch.empty(len(chosen), width, dtype=store.dtype)
    parts = []
    for slot, (layer, expert) in zip(block, chosen, strict=True):
        row = store.place(layer, expert, slot)
        store.read(layer, expert, row)
        parts.append(store.views(layer, row))
    return parts
