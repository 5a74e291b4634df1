"""How predictable the routing is: recall of the experts truly chosen by four simple predictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

    from prescope.tiny._capture import Routing

StaleInput = Literal["own-norm", "as-is"]


def recall(predicted: torch.Tensor, chosen: torch.Tensor) -> float:
    """Mean share of the experts in ``chosen [..., k]`` that are also in ``predicted [..., m]``."""
    return float((chosen.unsqueeze(-1) == predicted.unsqueeze(-2)).any(-1).float().mean())


def usage(routing: Routing, *, experts: int) -> torch.Tensor:
    """Share of the routed slots each expert got, float32 ``[layers, experts]``, rows summing to 1."""
    import torch

    flat = routing.chosen.reshape(routing.chosen.shape[0], -1)
    return torch.stack([torch.bincount(row, minlength=experts) for row in flat]).float() / flat.shape[1]


def usage_entropy(shares: torch.Tensor) -> list[float]:
    """Entropy of each layer's usage over that of uniform usage: 1 uniform, 0 a single expert."""
    import torch

    entropy = -torch.xlogy(shares, shares).sum(1) / math.log(shares.shape[1])
    return [float(value) for value in entropy]


def popularity_recall(routing: Routing, shares: torch.Tensor) -> list[float]:
    """Per layer, recall by the layer's most used experts; take `shares` from other text than `routing`."""
    top = shares.topk(routing.chosen.shape[-1], dim=1).indices
    return [recall(top[layer].expand_as(chosen), chosen) for layer, chosen in enumerate(routing.chosen)]


def previous_token_recall(routing: Routing) -> list[float]:
    """Per layer, recall by the experts that the stream's previous token chose at the same layer."""
    return [recall(chosen[:, :-1], chosen[:, 1:]) for chosen in routing.chosen]


def stale_gate_recall(
    model: Any, routing: Routing, *, horizon: int, stale_input: StaleInput = "own-norm"
) -> list[float]:
    """Recall of layer ``l + horizon`` by its own gate applied to what layer `l` knows.

    Parameters
    ----------
    horizon : int
        Layers ahead, in [1, layers - 1].
    stale_input : {"own-norm", "as-is"}
        ``own-norm`` normalises layer `l`'s residual with the norm of layer ``l + horizon``; ``as-is`` gives
        that gate layer `l`'s gating input, normalised for layer `l`.

    Returns
    -------
    list of float
        One recall per layer `l` from 0 to ``layers - horizon - 1``.
    """
    import torch

    layers = model.model.layers
    if not 1 <= horizon < len(layers):
        raise ValueError(f"expected horizon in [1, {len(layers) - 1}], got {horizon}")
    result = []
    with torch.inference_mode():
        for layer in range(len(layers) - horizon):
            target = layers[layer + horizon]
            if stale_input == "own-norm":
                seen = target.post_attention_layernorm(routing.residual[layer])
            else:
                seen = routing.gating_input[layer]
            predicted = target.mlp.gate(seen)[2].reshape_as(routing.chosen[layer])
            result.append(recall(predicted, routing.chosen[layer + horizon]))
    return result
