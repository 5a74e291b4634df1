"""Measures this machine for the model in a checkpoint folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prescope.instances import CostFile
from prescope.runtime.plugin.load import build_from_checkpoint
from prescope.runtime.plugin.load.expert_store import open_store
from prescope.runtime.profile.settings import ProfileSettings
from prescope.runtime.profile.whole_model import ProfileObserver, profile_model

if TYPE_CHECKING:
    import torch


def profile_checkpoint(
    path: str | os.PathLike[str],
    settings: ProfileSettings | None = None,
    *,
    dtype: torch.dtype | str | None = None,
    observe: ProfileObserver = lambda text, done, total: None,
) -> CostFile:
    """Measure the disk, memory, experts and dense work of a checkpoint's model on this machine.

    Its experts stay on disk, but for 256 MiB of them that are computed with.

    Parameters
    ----------
    path
        Folder with ``config.json`` and safetensors weights.
    settings
        What is measured and how thoroughly; `ProfileSettings` by default.
    dtype
        Element type of the model, as for `prescope.load`; costs hold for this type alone.
    observe
        Told about the progress.

    Raises
    ------
    AttachError, CheckpointError, DiskReadError
        As by `prescope.load`.
    """
    observe("loading", 0, 1)
    model, checkpoint = build_from_checkpoint(path, dtype)
    with open_store(model, checkpoint) as store:
        return profile_model(model, store, checkpoint.files, settings, observe=observe)
