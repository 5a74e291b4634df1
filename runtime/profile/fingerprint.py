"""The fingerprint of a transformers model."""

from __future__ import annotations

from typing import Any

from prescope.instances import ModelFingerprint


def fingerprint_of(model: Any, dtype: Any = None) -> ModelFingerprint:
    """Take the fingerprint of a model, or of a configuration.

    Parameters
    ----------
    model
        A transformers model of a supported family, attached or not, its experts in memory or not; or its
        configuration.
    dtype
        Element type of the arithmetic (``torch.dtype``) where a configuration is given; ``None`` takes the
        configuration's.

    Raises
    ------
    AttachError
        When the family is not supported.
    """
    from prescope.runtime.plugin.moe_layers import moe_layers

    if not hasattr(model, "named_modules"):
        model = _without_weights(model, dtype)
    layers = moe_layers(model)
    experts = layers[0].experts
    ours = {id(parameter) for layer in layers for parameter in layer.experts.parameters()}
    dense = sum(weight.numel() for weight in model.parameters() if id(weight) not in ours)
    gate_up, down = tuple(experts.gate_up_proj.shape), tuple(experts.down_proj.shape)
    return ModelFingerprint(
        family=str(model.config.model_type),
        layers=len(layers),
        decoder_layers=int(model.config.num_hidden_layers),
        experts=int(gate_up[0]),
        top_k=int(layers[0].router.top_k),
        gate_up_shape=(int(gate_up[1]), int(gate_up[2])),
        down_shape=(int(down[1]), int(down[2])),
        dense_parameters=int(dense),
        dtype=str(experts.gate_up_proj.dtype).removeprefix("torch."),
    )


def _without_weights(config: Any, dtype: Any) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    wanted = getattr(config, "dtype", None) if dtype is None else dtype
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=wanted or torch.float32)
