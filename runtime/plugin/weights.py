"""Moves expert weights out of a model into the host store, and back, bit for bit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from prescope.runtime.plugin.moe_layers import MoeLayer
from prescope.runtime.store import HostStore, consecutive_parts

PARTS = ("gate_up_proj", "down_proj")


def take_weights(layers: tuple[MoeLayer, ...]) -> HostStore:
    """Move all experts into a host store; the modules keep meta tensors.

    One layer at a time, so that at most one layer's experts exist twice.
    """
    # A caller's inference mode must not leave weights behind that only serve inside it.
    with torch.inference_mode(False):
        return _take(layers)


def _take(layers: tuple[MoeLayer, ...]) -> HostStore:
    rows: list[Tensor] = []
    done: list[MoeLayer] = []
    shapes = {part: tuple(getattr(layers[0].experts, part).shape[1:]) for part in PARTS}
    parts = consecutive_parts(shapes)
    try:
        for layer in layers:
            weights = [getattr(layer.experts, part) for part in PARTS]
            row = torch.empty(weights[0].shape[0], sum(part.size for part in parts), dtype=weights[0].dtype)
            for part, weight in zip(parts, weights, strict=True):
                row[:, part.offset : part.offset + part.size] = weight.detach().flatten(1)
            rows.append(row)
            done.append(layer)
            for name, weight in zip(PARTS, weights, strict=True):
                _set(layer.experts, name, torch.empty_like(weight, device="meta"), weight.requires_grad)
    except BaseException:
        for layer, row in zip(done, rows, strict=False):
            _restore_layer(layer, row, shapes)
        raise
    return HostStore(rows, parts)


def return_weights(layers: tuple[MoeLayer, ...], store: HostStore) -> None:
    """Put all experts back into their modules; the store is empty afterwards."""
    shapes = {part.name: part.shape for part in store.parts[0]}
    with torch.inference_mode(False):
        for index, layer in enumerate(layers):
            _restore_layer(layer, store.rows[index], shapes)
            # So that at most one layer's experts exist twice on the way back, too.
            store.release(index)


def _restore_layer(layer: MoeLayer, row: Tensor, shapes: dict[str, tuple[int, ...]]) -> None:
    offset = 0
    for name, shape in shapes.items():
        size = torch.Size(shape).numel()
        weight = row[:, offset : offset + size].reshape(row.shape[0], *shape).clone()
        offset += size
        _set(layer.experts, name, weight, getattr(layer.experts, name).requires_grad)


def _set(module: nn.Module, name: str, weight: Tensor, requires_grad: bool) -> None:
    module.register_parameter(name, nn.Parameter(weight, requires_grad=requires_grad))
