"""Weights without a model: every expert's row differs from all others."""

from __future__ import annotations

from prescope.runtime.store import HostStore, consecutive_parts


def synthetic_store(*, layers: int, experts: int, elements: int = 24) -> HostStore:
    """Rows of float32 in three parts (``gate``, ``up``, ``down``) whose values name layer, expert and place.

    Parameters
    ----------
    layers, experts
        How many.
    elements
        Values per expert, a multiple of three.

    Raises
    ------
    ValueError
        When ``elements`` is not a positive multiple of three.
    """
    import torch

    if elements < 3 or elements % 3:
        raise ValueError(f"expected elements to be a positive multiple of 3, got {elements}")
    third = elements // 3
    place = torch.arange(elements, dtype=torch.float32) / (2 * elements)
    rows = []
    for layer in range(layers):
        numbers = torch.arange(layer * experts, (layer + 1) * experts, dtype=torch.float32)
        rows.append((numbers[:, None] + 1 + place[None, :]).contiguous())
    return HostStore(rows, consecutive_parts({"gate": (third,), "up": (third,), "down": (third,)}))
