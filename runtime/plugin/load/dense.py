"""Reads a model's dense weights from its checkpoint, each one once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from prescope.runtime.disk import Checkpoint, CheckpointError, DiskStore
from prescope.runtime.disk.dtypes import PLAIN_FLOATS
from prescope.runtime.disk.header import TensorEntry
from prescope.runtime.plugin.load.progress import LoadProgress, ProgressObserver

# Frequencies that old checkpoints stored; every model computes them.
_COMPUTED = re.compile(r"\.rotary_emb\.inv_freq$")
_NAMED = 5


def fill_dense(model: Any, store: DiskStore, observe: ProgressObserver) -> None:
    """Fill everything but the experts, then tie what the configuration ties.

    Parameters
    ----------
    model
        Of `empty_model`.
    store
        The experts' store; its checkpoint holds the dense weights too.
    observe
        Called after each tensor.

    Raises
    ------
    CheckpointError
        When a tensor is missing, unknown to the model, or of another shape or type; names the tensor and its
        file.
    DiskReadError
        When one cannot be read. The model is unusable then.
    """
    checkpoint = store.checkpoint
    targets: dict[str, Tensor] = {
        name: tensor for name, tensor in model.state_dict().items() if not tensor.is_meta
    }
    found = {
        _model_name(name): name
        for name in checkpoint.names
        if name not in store.expert_names and not _COMPUTED.search(name)
    }
    missing = targets.keys() - found.keys()
    _check_names(model, checkpoint, found, targets.keys(), missing)
    entries = {name: checkpoint.tensor(found[name]) for name in targets if name not in missing}
    for name, entry in entries.items():
        _check_tensor(entry, targets[name])
    total_bytes, done_bytes = sum(entry.size_bytes for entry in entries.values()), 0
    # In the order they lie on the disk.
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].file, item[1].offset_bytes)):
        # Copied into the model's own memory, which is aligned for computing; the disk chose where it read to.
        targets[name].copy_(store.read_tensor(entry.name))
        done_bytes += entry.size_bytes
        observe(LoadProgress(tensor=entry.name, done_bytes=done_bytes, total_bytes=total_bytes))
    model.tie_weights(missing_keys=set(missing), recompute_mapping=False)


def stored_dtype(checkpoint: Checkpoint) -> torch.dtype:
    """Element type of a checkpoint's first floating tensor."""
    for name in checkpoint.names:
        entry = checkpoint.tensor(name)
        if entry.dtype in PLAIN_FLOATS:
            return entry.torch_dtype
    raise CheckpointError(f"{checkpoint.source}: expected weights in {', '.join(PLAIN_FLOATS)}, got none")


def _model_name(name: str) -> str:
    # Mixtral's blocks were renamed.
    return name.replace(".block_sparse_moe.", ".mlp.")


def _check_names(
    model: Any, checkpoint: Checkpoint, found: dict[str, str], wanted: Iterable[str], missing: Iterable[str]
) -> None:
    tied: dict[str, str] = model.all_tied_weights_keys
    partners = {**tied, **{source: target for target, source in tied.items()}}
    # Of two tied weights one is enough.
    lacking = sorted(name for name in missing if partners.get(name) not in found)
    if lacking:
        raise CheckpointError(
            f"{checkpoint.source}: expected the dense weights of {type(model).__name__}, got none "
            f"named {_some(lacking)}: the checkpoint is incomplete, or config.json belongs to another one"
        )
    unknown = sorted(found[name] for name in found.keys() - set(wanted))
    if unknown:
        raise CheckpointError(
            f"{checkpoint.tensor(unknown[0]).file}: expected only weights of {type(model).__name__}, got "
            f"{_some(unknown)}: config.json belongs to another checkpoint, or to a part of this one"
        )


def _check_tensor(entry: TensorEntry, target: Tensor) -> None:
    if tuple(entry.shape) != tuple(target.shape):
        raise CheckpointError(
            f"{entry.file}: {entry.name}: expected shape {tuple(target.shape)} by config.json, "
            f"got {tuple(entry.shape)}: config.json belongs to another checkpoint"
        )
    if entry.dtype not in PLAIN_FLOATS:
        raise CheckpointError(
            f"{entry.file}: {entry.name}: expected {', '.join(PLAIN_FLOATS)}, got {entry.dtype}: "
            "quantised weights are not supported"
        )


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
