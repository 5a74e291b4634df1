"""The Mixture-of-Experts layers of a transformers model, and whether they can be served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

# One entry per supported family: config.model_type -> class of its experts module.
FAMILIES = {"qwen3_moe": "Qwen3MoeExperts", "mixtral": "MixtralExperts", "olmoe": "OlmoeExperts"}

_LAYER_TAG = "_prescope_layer"


class AttachError(ValueError):
    """A model, or a request, that the plug-in cannot honour; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeLayer:
    """One layer's modules.

    Parameters
    ----------
    name
        Path of the experts module in the model.
    experts
        Holds ``gate_up_proj`` ``[E, 2I, H]`` and ``down_proj`` ``[E, H, I]``.
    router
        Returns ``(logits, weights, indices)``.
    norm
        The RMS norm in front of the block, or ``None`` when it was not found.
    """

    name: str
    # Typed loosely: torch types every attribute of a module as a tensor or a module.
    experts: Any
    router: Any
    norm: Any


def moe_layers(model: Any) -> tuple[MoeLayer, ...]:
    """Find a model's MoE layers in order.

    Raises
    ------
    AttachError
        When the model's family is not supported, with the reason.
    """
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    if model_type not in FAMILIES:
        raise AttachError(
            f"expected a model of the families {', '.join(FAMILIES)}, got model_type={model_type!r}: "
            "other families are not supported yet"
        )
    layers = []
    for name, block in model.named_modules():
        experts, router = getattr(block, "experts", None), getattr(block, "gate", None)
        if type(experts).__name__ != FAMILIES[model_type] or not isinstance(router, nn.Module):
            continue
        parent = model.get_submodule(name.rpartition(".")[0])
        norm = getattr(parent, "post_attention_layernorm", None)
        layers.append(MoeLayer(name=f"{name}.experts", experts=experts, router=router, norm=norm))
    if not layers:
        raise AttachError(f"expected MoE layers with {FAMILIES[model_type]} modules, got none in the model")
    return tuple(layers)


def check_supported(model: Any, layers: tuple[MoeLayer, ...], *, on_disk: bool = False) -> None:
    """Refuse what the plug-in cannot honour.

    Parameters
    ----------
    model, layers
        The model and its MoE layers.
    on_disk
        Whether its experts are on disk, so that the modules hold meta tensors.

    Raises
    ------
    AttachError
        With what was found, where, and what to do instead.
    """
    config = model.config
    if hasattr(model, "_orig_mod"):
        raise AttachError("expected an uncompiled model, got one wrapped by torch.compile: pass the original")
    if getattr(model, "hf_quantizer", None) is not None or getattr(config, "quantization_config", None):
        raise AttachError(
            "expected unquantised experts, got a quantised model (its experts bypass the hook): "
            "load it without quantization_config"
        )
    if getattr(model, "_use_kernels", False):
        raise AttachError("expected use_kernels=False, got True: replaced kernels bypass the experts' hook")
    for layer in layers:
        _check_layer(layer, layers[0], "meta" if on_disk else "cpu")
    for name, module in model.named_modules():
        if getattr(module, "_compiled_call_impl", None) is not None:
            raise AttachError(
                f"expected an uncompiled model, got {name or 'the model'!r} after compile(): load it anew"
            )
        if hasattr(module, "_hf_hook"):
            raise AttachError(
                f"expected a model without accelerate hooks, got one on {name or 'the model'!r}: two "
                "offloaders would move the same weights; load it without device_map and offload folders"
            )


def _check_layer(layer: MoeLayer, first: MoeLayer, device: str) -> None:
    if hasattr(layer.experts, _LAYER_TAG):
        raise AttachError("expected a model that is not attached, got one with an engine: detach it first")
    for flag, wanted in (
        ("has_gate", True),
        ("has_bias", False),
        ("is_transposed", False),
        ("is_concatenated", True),
        ("has_post_expert_norm", False),
        ("_is_expert_parallel", False),
    ):
        if getattr(layer.experts, flag, wanted) is not wanted:
            raise AttachError(f"expected {flag}={wanted} on {layer.name}, got {not wanted}")
    for part in ("gate_up_proj", "down_proj"):
        weight: Tensor = getattr(layer.experts, part)
        reference: Tensor = getattr(first.experts, part)
        where = f"{layer.name}.{part}"
        if weight.device.type != device:
            place = "in host memory" if device == "cpu" else "on disk"
            raise AttachError(f"expected weights {place}, got {where} on {weight.device}")
        if weight.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise AttachError(f"expected float32, bfloat16 or float16 weights, got {where} in {weight.dtype}")
        if weight.shape != reference.shape or weight.dtype != reference.dtype:
            raise AttachError(
                f"expected equal experts in all layers, {tuple(reference.shape)} {reference.dtype}, "
                f"got {where} with {tuple(weight.shape)} {weight.dtype}"
            )


def tag(layer: MoeLayer, index: int, owner: object) -> None:
    """Mark an experts module with its MoE layer index and its engine (modules carry neither)."""
    # Past nn.Module.__setattr__, which would register the engine's modules as children.
    object.__setattr__(layer.experts, _LAYER_TAG, (index, owner))


def untag(layer: MoeLayer) -> None:
    """Remove the mark; does nothing without one."""
    if hasattr(layer.experts, _LAYER_TAG):
        object.__delattr__(layer.experts, _LAYER_TAG)


def tagged(experts: nn.Module) -> tuple[int, object] | None:
    """The mark of an experts module, or ``None``."""
    mark: tuple[int, object] | None = getattr(experts, _LAYER_TAG, None)
    return mark


def expert_bytes(model: Any) -> tuple[int, int, int]:
    """Number of MoE layers, experts per layer, and bytes of one expert of a model."""
    layers = moe_layers(model)
    first = layers[0].experts
    shapes = [getattr(first, part) for part in ("gate_up_proj", "down_proj")]
    size = sum(weight[0].numel() * weight.element_size() for weight in shapes)
    return len(layers), int(shapes[0].shape[0]), size
