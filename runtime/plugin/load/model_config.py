"""A checkpoint folder's configuration, checked before anything is built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from prescope.runtime.plugin.moe_layers import FAMILIES, AttachError

_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def read_config(folder: Path) -> Any:
    """The transformers configuration in a folder.

    Raises
    ------
    AttachError
        When there is no readable ``config.json``, or its model cannot be served from disk; the message
        says what was found and what is supported.
    """
    if not folder.is_dir():
        raise AttachError(f"expected the folder of a saved transformers model, got {folder}: no such folder")
    path = folder / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AttachError(
            f"expected the folder of a saved transformers model, got {folder} without config.json"
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise AttachError(f"{path}: expected a model configuration in JSON, got {error}") from error
    if not isinstance(raw, dict):
        raise AttachError(f"{path}: expected a JSON object, got {type(raw).__name__}")
    if raw.get("model_type") not in FAMILIES:
        raise AttachError(
            f"{path}: expected a model_type among {', '.join(FAMILIES)}, got {raw.get('model_type')!r}: "
            "other families are not supported yet"
        )
    if raw.get("quantization_config") is not None:
        raise AttachError(
            f"{path}: expected unquantised weights, got a quantization_config: "
            "use the checkpoint it was made from"
        )
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except (TypeError, ValueError, KeyError, AttributeError, StrictDataclassError) as error:
        reason = " ".join(str(error).split())
        raise AttachError(f"{path}: expected a configuration that transformers accepts: {reason}") from error
    config.name_or_path = str(folder)
    return config


def choose_dtype(wanted: torch.dtype | str | None, config: Any, stored: torch.dtype) -> torch.dtype:
    """The element type a model is built in.

    Parameters
    ----------
    wanted
        ``float32``, ``bfloat16`` or ``float16``, as a type or by name; ``None`` or ``"auto"`` takes the
        configuration's, else the weights' own.
    config
        The configuration.
    stored
        Element type of the weights in the checkpoint.

    Raises
    ------
    AttachError
        For any other type.
    """
    chosen = wanted
    if wanted is None or wanted == "auto":
        chosen = getattr(config, "dtype", None) or stored
    if isinstance(chosen, str):
        chosen = _DTYPES.get(chosen.removeprefix("torch."), chosen)
    if chosen not in _DTYPES.values() or not isinstance(chosen, torch.dtype):
        raise AttachError(f"expected dtype to be {', '.join(_DTYPES)} or 'auto', got {chosen!r}")
    return chosen
