"""Builds a model from a checkpoint folder, without its experts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from prescope.runtime.disk import Checkpoint
from prescope.runtime.plugin.load.dense import fill_dense, stored_dtype
from prescope.runtime.plugin.load.empty_model import empty_model
from prescope.runtime.plugin.load.expert_store import open_store
from prescope.runtime.plugin.load.model_config import choose_dtype, read_config
from prescope.runtime.plugin.load.progress import ProgressObserver, unobserved


def build_from_checkpoint(
    path: str | os.PathLike[str],
    dtype: torch.dtype | str | None = None,
    *,
    progress: ProgressObserver | None = None,
) -> tuple[Any, Checkpoint]:
    """Build a transformers model whose experts stay in its checkpoint.

    Dense weights are read once each, one after the other: besides them at most one tensor is held. The
    experts' parameters are meta tensors; `prescope.load` serves them.

    Parameters
    ----------
    path
        Folder with ``config.json`` and safetensors weights, in one file or in shards.
    dtype
        Element type of the model; ``None`` takes the configuration's.
    progress
        Called after each tensor.

    Returns
    -------
    model, checkpoint
        The model in evaluation mode, with the folder's generation settings, and the index of its tensors.

    Raises
    ------
    AttachError
        When the folder holds no model of a supported family.
    CheckpointError
        When tensors are missing, unknown, mismatched or truncated; names file and tensor.
    DiskReadError
        When the disk fails.
    """
    folder = Path(path)
    config = read_config(folder)
    checkpoint = Checkpoint.open(folder)
    model = empty_model(config, choose_dtype(dtype, config, stored_dtype(checkpoint)))
    with open_store(model, checkpoint) as store:
        fill_dense(model, store, progress or unobserved)
    _load_generation_config(model, folder)
    return model, checkpoint


def _load_generation_config(model: Any, folder: Path) -> None:
    from transformers import GenerationConfig

    source: dict[str, Any] = {}
    if not (folder / "generation_config.json").is_file():
        source = {"config_file_name": "config.json", "_from_model_config": True}
    model.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True, **source)
