"""A store of experts like the one on disk, filled from a model in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from prescope.runtime import HostStore, consecutive_parts
from prescope.runtime.plugin.moe_layers import moe_layers

_SLACK = 16


class MemoryExperts:
    """Reads experts of a model from memory; tells an observer, and counts reads in flight."""

    def __init__(self, model: Any, observe: Callable[[], object] = lambda: None) -> None:
        layers = moe_layers(model)
        parts = ("gate_up_proj", "down_proj")
        rows = [
            torch.cat([getattr(layer.experts, part).detach().flatten(1) for part in parts], dim=1)
            for layer in layers
        ]
        shapes = {part: tuple(getattr(layers[0].experts, part).shape[1:]) for part in parts}
        self._host = HostStore(rows, consecutive_parts(shapes))
        self._observe = observe
        self._lock = threading.Lock()
        self._running = 0
        self.most_running = 0
        self.read_experts: list[tuple[int, int]] = []
        self.direct = False
        self.layers, self.experts, self.dtype = self._host.layers, self._host.experts, self._host.dtype
        self.row_bytes, self.views = self._host.row_bytes, self._host.views

    def slot_elements(self, layer: int) -> int:
        return self._host.elements(layer) + _SLACK

    def place(self, layer: int, expert: int, slot: Tensor) -> Tensor:
        return slot[expert % _SLACK :][: self._host.elements(layer)]

    def read(self, layer: int, expert: int, row: Tensor) -> int:
        with self._lock:
            self._running += 1
            self.most_running = max(self.most_running, self._running)
            self.read_experts.append((layer, expert))
        try:
            self._observe()
            row.copy_(self._host.row(layer, expert))
            return self.row_bytes(layer)
        finally:
            with self._lock:
                self._running -= 1

    def row(self, layer: int, expert: int) -> Tensor:
        return self._host.row(layer, expert)
