"""Small random models of every supported family, and how to compare them plugged and unplugged."""

from __future__ import annotations

import functools
from typing import Any

import torch

FAMILY_NAMES = ("qwen3_moe", "mixtral", "olmoe")
END, PAD = 5, 0


@functools.cache
def _random_model(family: str, dtype: torch.dtype, layers: int, experts: int) -> Any:
    from transformers import (
        MixtralConfig,
        MixtralForCausalLM,
        OlmoeConfig,
        OlmoeForCausalLM,
        Qwen3MoeConfig,
        Qwen3MoeForCausalLM,
    )

    common: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 96,
        "num_experts_per_tok": min(2, experts),
        "bos_token_id": 1,
        "eos_token_id": END,
        "pad_token_id": PAD,
        "initializer_range": 0.3,
    }
    torch.manual_seed(7)
    if family == "qwen3_moe":
        config = Qwen3MoeConfig(
            **common, num_experts=experts, moe_intermediate_size=16, intermediate_size=64, head_dim=8
        )
        model = Qwen3MoeForCausalLM(config)
    elif family == "mixtral":
        model = MixtralForCausalLM(MixtralConfig(**common, num_local_experts=experts, intermediate_size=16))
    else:
        model = OlmoeForCausalLM(OlmoeConfig(**common, num_experts=experts, intermediate_size=16))
    return model.eval().to(dtype)


def random_model(
    family: str = "qwen3_moe",
    *,
    dtype: torch.dtype = torch.float32,
    layers: int = 3,
    experts: int = 6,
    implementation: str = "eager",
) -> Any:
    """A random model with weights that route unevenly; a fresh copy each time."""
    import copy

    model = copy.deepcopy(_random_model(family, dtype, layers, experts))
    model.set_experts_implementation(implementation)
    return model


def prompts(batch: int, tokens: int, *, padded: bool = True, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random prompts, left-padded by a different amount per row."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(6, 96, (batch, tokens), generator=generator)
    mask = torch.ones_like(ids)
    if padded:
        for row in range(batch):
            mask[row, : row % tokens] = 0
    return {"input_ids": ids.masked_fill(mask == 0, PAD), "attention_mask": mask}
