"""A coming layer's gate applied to the current layer's gating input."""

from __future__ import annotations

import torch
from torch import Tensor

from prescope.runtime.plugin.moe_layers import MoeLayer


class StaleRouter:
    """Callable for `prescope.predictor.StaleGate`.

    The gating input is an RMS norm's output. Dividing by the current layer's norm weight and multiplying
    by the target's gives exactly what the target's norm would make of the current residual stream.

    Parameters
    ----------
    layers
        The model's MoE layers.
    """

    def __init__(self, layers: tuple[MoeLayer, ...]) -> None:
        self._layers = layers

    def __call__(self, source: int, target: int, hidden: Tensor) -> Tensor:
        """Experts that layer ``target`` would choose, int64 ``[tokens, top_k]``."""
        with torch.no_grad():
            # Past the module's hooks: those that record router outputs must not see this question.
            indices = self._layers[target].router.forward(self._renormed(source, target, hidden))[2]
        result: Tensor = indices
        return result

    def _renormed(self, source: int, target: int, hidden: Tensor) -> Tensor:
        old, new = self._layers[source].norm, self._layers[target].norm
        if old is None or new is None:
            return hidden
        old_weight: Tensor = old.weight
        new_weight: Tensor = new.weight
        if not bool((old_weight != 0).all()):
            return hidden
        return hidden / old_weight * new_weight
