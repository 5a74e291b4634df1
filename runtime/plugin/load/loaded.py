"""A model served from its checkpoint on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from prescope.runtime.disk import DiskStore
from prescope.runtime.plugin.engine import Engine
from prescope.runtime.plugin.load.build import build_from_checkpoint
from prescope.runtime.plugin.load.expert_store import open_store
from prescope.runtime.plugin.load.link import attach_store
from prescope.runtime.plugin.load.progress import ProgressObserver


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loaded:
    """A model and the engine that serves its experts; close it, or use it in a ``with`` block.

    Parameters
    ----------
    model
        A transformers model: ``model(...)`` and ``model.generate(...)`` as usual, in inference only.
    engine
        Brings the experts in from the disk; `Engine.report` says what that cost.
    store
        The experts on disk.
    """

    model: Any
    engine: Engine
    store: DiskStore

    def __enter__(self) -> Loaded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the experts' memory and close the files; the model cannot run afterwards.

        Further calls do nothing.
        """
        try:
            self.engine.detach()
        finally:
            self.store.close()


def load(
    path: str | os.PathLike[str],
    expert_memory: str | int = "1GiB",
    *,
    policy: str = "dp",
    dtype: torch.dtype | str | None = None,
    progress: ProgressObserver | None = None,
    **options: Any,
) -> Loaded:
    """Load a transformers model whose experts stay on disk, and serve them within a memory budget.

    Dense weights are loaded as usual; every expert that is not in memory when it is needed comes in from the
    checkpoint. What is computed does not change.

    Parameters
    ----------
    path
        Folder with ``config.json`` and safetensors weights, in one file or in shards.
    expert_memory
        Memory for experts: ``"1GiB"`` or a number of bytes.
    policy
        As for `prescope.attach`.
    dtype
        Element type of the model; ``None`` takes the configuration's. Experts stored in another type are
        converted as they arrive.
    progress
        Called after each dense tensor with a `LoadProgress`.
    **options
        Further options of `prescope.attach`.

    Raises
    ------
    AttachError
        When the folder holds no model of a supported family, or an option cannot be honoured (such as too
        small a budget; the message names the least that works).
    CheckpointError
        When tensors are missing, unknown, mismatched or truncated; names file and tensor.
    DiskReadError
        When the disk fails.
    """
    # attach asks this package where a model's experts are.
    from prescope.runtime.plugin.attach import attach

    model, checkpoint = build_from_checkpoint(path, dtype, progress=progress)
    store = open_store(model, checkpoint)
    try:
        attach_store(model, store)
        engine = attach(model, expert_memory, policy=policy, **options)
    except BaseException:
        store.close()
        raise
    return Loaded(model=model, engine=engine, store=store)
