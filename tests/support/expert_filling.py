"""Fills the experts of a model built without them, to compare it with a fully loaded one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from prescope.runtime.plugin import moe_layers
from prescope.runtime.plugin.load.expert_store import open_store


def fill_experts(model: Any, checkpoint: Any) -> None:
    """Give the experts modules the weights of a checkpoint."""
    with open_store(model, checkpoint) as store:
        for index, layer in enumerate(moe_layers(model)):
            rows = [store.views(index, store.load_row(index, expert)) for expert in range(store.experts)]
            for part in ("gate_up_proj", "down_proj"):
                weight = torch.stack([row[part] for row in rows])
                layer.experts.register_parameter(part, nn.Parameter(weight))
