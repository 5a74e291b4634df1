"""Run the model over token streams and keep what its gates saw and chose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from prescope.tiny._batches import Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """What the gates saw and chose, over ``[streams, tokens]`` positions.

    Attributes
    ----------
    residual : Tensor
        float32 ``[layers, streams, tokens, hidden]``: the residual stream before each MoE block's norm.
    gating_input : Tensor
        Same shape: what the gate itself is given (the normalised residual).
    chosen : Tensor
        int64 ``[layers, streams, tokens, top_k]``: the experts chosen.
    """

    residual: torch.Tensor
    gating_input: torch.Tensor
    chosen: torch.Tensor


def capture_routing(model: Any, rows: Tokens, *, batch: int = 16) -> Routing:
    """Teacher-force `model` on ``rows`` [streams, tokens] and record every MoE layer."""
    import torch

    layers = model.model.layers
    residual: list[list[torch.Tensor]] = [[] for _ in layers]
    gating: list[list[torch.Tensor]] = [[] for _ in layers]
    chosen: list[list[torch.Tensor]] = [[] for _ in layers]
    hooks = []
    for index, layer in enumerate(layers):
        hooks.append(layer.post_attention_layernorm.register_forward_hook(_keep_input(residual[index])))
        hooks.append(layer.mlp.gate.register_forward_hook(_keep_gate(gating[index], chosen[index])))
    try:
        with torch.inference_mode():
            for start in range(0, len(rows), batch):
                model.model(input_ids=torch.from_numpy(rows[start : start + batch]), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()

    def joined(parts: list[list[torch.Tensor]]) -> torch.Tensor:
        flat = torch.stack([torch.cat([p.reshape(-1, p.shape[-1]) for p in part]) for part in parts])
        return flat.reshape(len(parts), rows.shape[0], rows.shape[1], -1)

    return Routing(residual=joined(residual), gating_input=joined(gating), chosen=joined(chosen))


def _keep_input(kept: list[torch.Tensor]) -> Callable[..., None]:
    def hook(_module: Any, args: tuple[Any, ...], _output: Any) -> None:
        kept.append(args[0].detach().float())

    return hook


def _keep_gate(inputs: list[torch.Tensor], chosen: list[torch.Tensor]) -> Callable[..., None]:
    def hook(_module: Any, args: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        inputs.append(args[0].detach().float())
        chosen.append(output[2].detach())

    return hook
