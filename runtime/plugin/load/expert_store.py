"""Opens the experts of a checkpoint as a model expects them."""

from __future__ import annotations

from typing import Any

from prescope.runtime.disk import Checkpoint, CheckpointError, DiskStore
from prescope.runtime.plugin.moe_layers import moe_layers


def open_store(model: Any, checkpoint: Checkpoint) -> DiskStore:
    """Open the store of a model's experts; no data is read.

    Parameters
    ----------
    model
        Of `empty_model` or `build_from_checkpoint`.
    checkpoint
        Where its weights are.

    Raises
    ------
    CheckpointError
        When the experts there are not those that the model has.
    """
    layers = moe_layers(model)
    gate_up, down = layers[0].experts.gate_up_proj, layers[0].experts.down_proj
    store = DiskStore.open(
        checkpoint,
        dtype=gate_up.dtype,
        layers=len(layers),
        experts=int(gate_up.shape[0]),
        gate_up_shape=(int(gate_up.shape[1]), int(gate_up.shape[2])),
        down_shape=(int(down.shape[1]), int(down.shape[2])),
    )
    wanted = tuple(_decoder_layer(layer.name) for layer in layers)
    if store.decoder_layers != wanted:
        store.close()
        raise CheckpointError(
            f"{checkpoint.source}: expected experts in decoder layers {wanted} by config.json, got "
            f"them in {store.decoder_layers}: config.json belongs to another checkpoint"
        )
    return store


def _decoder_layer(name: str) -> int:
    """Index in ``model.layers.INDEX.mlp.experts``."""
    return int(name.split(".layers.")[1].split(".")[0])
