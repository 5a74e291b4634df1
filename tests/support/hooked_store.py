"""A store whose reads call a hook first: to slow them down, to fail them, to see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from prescope.runtime import HostStore, Part, synthetic_store

_GAP = 3


class HookedStore:
    """Weights that can only be read, and lie in their slots behind a gap that depends on the expert."""

    def __init__(
        self, hidden: HostStore, hook: Callable[[int, int], None] = lambda layer, expert: None
    ) -> None:
        self.hook = hook
        self.hidden = hidden
        self.degraded: tuple[str, ...] = ()
        self.layers, self.experts, self.dtype = hidden.layers, hidden.experts, hidden.dtype
        self.parts: Sequence[Sequence[Part]] = hidden.parts
        self.elements, self.row_bytes, self.views = hidden.elements, hidden.row_bytes, hidden.views

    def slot_elements(self, layer: int) -> int:
        return self.elements(layer) + _GAP

    def new_slots(self, count: int) -> Tensor:
        return torch.empty((count, max(map(self.slot_elements, range(self.layers)))), dtype=self.dtype)

    def place(self, layer: int, expert: int, slot: Tensor) -> Tensor:
        first = (layer + expert) % (_GAP + 1)
        return slot[first : first + self.elements(layer)]

    def read(self, layer: int, expert: int, row: Tensor) -> int:
        self.hook(layer, expert)
        self.hidden.read(layer, expert, row)
        return self.row_bytes(layer) + 512


def hooked_store(*, layers: int, experts: int, hook: Callable[[int, int], None] | None = None) -> HookedStore:
    """Synthetic weights behind a hook."""
    hidden = synthetic_store(layers=layers, experts=experts)
    return HookedStore(hidden) if hook is None else HookedStore(hidden, hook)
