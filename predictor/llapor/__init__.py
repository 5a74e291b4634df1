"""LLaPor: one small network per MoE layer, from what a gate saw to the demand of the coming layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prescope.predictor.llapor.checkpoint import load_llapor, save_llapor
    from prescope.predictor.llapor.model import LlaporModel
    from prescope.predictor.llapor.open import open_llapor
    from prescope.predictor.llapor.predictor import Llapor
    from prescope.predictor.llapor.settings import GroupSettings, LlaporSettings
    from prescope.predictor.llapor.train import train_llapor

# Loaded when first used: most of them need torch.
_HOMES = {
    "GroupSettings": "settings",
    "Llapor": "predictor",
    "LlaporModel": "model",
    "LlaporSettings": "settings",
    "load_llapor": "checkpoint",
    "open_llapor": "open",
    "save_llapor": "checkpoint",
    "train_llapor": "train",
}

__all__ = [
    "GroupSettings",
    "Llapor",
    "LlaporModel",
    "LlaporSettings",
    "load_llapor",
    "open_llapor",
    "save_llapor",
    "train_llapor",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
