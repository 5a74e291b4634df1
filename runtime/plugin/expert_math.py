"""The arithmetic of one expert, in the stock code's order so that results are bit-identical."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertInput:
    """The tokens of one expert.

    Parameters
    ----------
    rows
        Their rows in the flattened batch, int64 ``[n]``.
    hidden
        Gating inputs, ``[n, H]``.
    scale
        Routing weights, ``[n, 1]``.
    """

    rows: Tensor
    hidden: Tensor
    scale: Tensor


def expert_inputs(
    hidden: Tensor, indices: Tensor, weights: Tensor, real: Tensor, experts: int
) -> dict[int, ExpertInput]:
    """Group the real rows by expert, ascending, each expert's rows in the stock order.

    Indices of ``experts`` and above are mask sentinels and are left out.
    """
    chosen = indices[real]
    flat = chosen.reshape(-1)
    order = torch.argsort(flat, stable=True)
    counts = torch.bincount(flat[flat < experts], minlength=experts).tolist()
    top_k = indices.shape[1]
    inputs: dict[int, ExpertInput] = {}
    start = 0
    for expert, count in enumerate(counts):
        if not count:
            continue
        places = order[start : start + count]
        start += count
        # The stock loop walks choice by choice, then row by row: torch.where on [top_k, rows].
        position, row = places % top_k, places // top_k
        walk = torch.argsort(position * chosen.shape[0] + row)
        position, rows = position[walk], real[row[walk]]
        inputs[expert] = ExpertInput(rows=rows, hidden=hidden[rows], scale=weights[rows, position, None])
    return inputs


def run_expert(module: Any, weights: Mapping[str, Tensor], work: ExpertInput) -> Tensor:
    """One expert's weighted output ``[n, H]`` with the module's own gating."""
    linear = nn.functional.linear
    gated = module._apply_gate(linear(work.hidden, weights["gate_up_proj"]))
    result: Tensor = linear(gated, weights["down_proj"]) * work.scale
    return result


def autocast_type() -> torch.dtype | None:
    """Data type of the caller's autocast, or ``None`` without one."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None


def compute_expert(
    module: Any,
    outputs: dict[int, Tensor],
    autocast: torch.dtype | None,
    expert: int,
    work: ExpertInput,
    weights: Mapping[str, Tensor],
) -> None:
    """Put `run_expert` of one expert into ``outputs``, on whatever thread this runs."""
    # Worker threads inherit neither the caller's grad mode nor its autocast.
    cast = nullcontext() if autocast is None else torch.autocast("cpu", dtype=autocast)
    with torch.no_grad(), cast:
        outputs[expert] = run_expert(module, weights, work)


def add_outputs(hidden: Tensor, inputs: Mapping[int, ExpertInput], outputs: Mapping[int, Tensor]) -> Tensor:
    """Sum of the experts' outputs of every row, ``[rows, H]`` as ``hidden``."""
    combined = torch.zeros_like(hidden)
    # Ascending, as the stock loop adds them: the sum is bit-identical whatever ran where.
    for expert, work in inputs.items():
        combined.index_add_(0, work.rows, outputs[expert].to(combined.dtype))
    return combined
