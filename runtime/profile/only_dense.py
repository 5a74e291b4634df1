"""Runs a model's forward pass without the arithmetic of its experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from prescope.runtime.plugin.expert_math import expert_inputs
from prescope.runtime.plugin.moe_layers import MoeLayer


@contextmanager
def only_dense(layers: tuple[MoeLayer, ...], at_gate: Callable[[], object] = lambda: None) -> Iterator[None]:
    """In the block, let experts modules sort tokens and add up as an engine does, but compute nothing.

    Parameters
    ----------
    layers
        The model's MoE layers, not attached; their experts may be meta tensors.
    at_gate
        Called in every layer where an engine would hand the experts over.
    """
    try:
        for layer in layers:
            # Past nn.Module.__setattr__; found before the class's own forward.
            object.__setattr__(layer.experts, "forward", _stand_in(layer.experts, at_gate))
        yield
    finally:
        for layer in layers:
            vars(layer.experts).pop("forward", None)


def _stand_in(module: Any, at_gate: Callable[[], object]) -> Callable[..., Tensor]:
    experts = int(module.gate_up_proj.shape[0])

    def forward(hidden: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        inputs = expert_inputs(hidden, indices, weights, torch.arange(hidden.shape[0]), experts)
        at_gate()
        combined = torch.zeros_like(hidden)
        for work in inputs.values():
            combined.index_add_(0, work.rows, work.hidden)
        return combined

    return forward
