"""A routing-only predictor on disk: ``predictor.json`` and ``weights.safetensors``."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from prescope.predictor.checkpoint_files import (
    CheckpointError,
    cost_pairs,
    exactly,
    read_checkpoint,
    write_checkpoint,
)
from prescope.predictor.routing_only.model import RoutingOnlyModel, shapes
from prescope.predictor.routing_only.settings import RoutingOnlySettings
from prescope.predictor.split import SequenceSplit

KINDS = ("routing-only", "ridge")
_FIELDS = ("model", "settings", "split", "cost_ns", "notes")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    name: str
    fingerprint: str
    layers: int
    experts: int
    top_k: int


def save_routing_only(folder: str | os.PathLike[str], model: RoutingOnlyModel, *, notes: str = "") -> None:
    """Write a checkpoint folder.

    Parameters
    ----------
    folder
        Is made where missing; an older checkpoint in it is replaced.
    model
        Trained numbers.
    notes
        Anything else worth knowing.
    """
    from safetensors.numpy import save

    names = shapes(model.layers, model.experts, model.settings)
    document: dict[str, Any] = {
        "model": {field.name: getattr(model, field.name) for field in dataclasses.fields(_Shape)},
        "settings": _plain(model.settings),
        "split": _plain(model.split),
        "cost_ns": [list(pair) for pair in model.cost_ns],
        "notes": notes,
    }
    write_checkpoint(folder, model.kind, document, save({name: getattr(model, name) for name in names}))


def load_routing_only(folder: str | os.PathLike[str]) -> RoutingOnlyModel:
    """Read a checkpoint folder.

    Raises
    ------
    CheckpointError
        When a file is missing, damaged, of another kind or version, or holds arrays of other shapes.
    """
    kind, document, arrays = read_checkpoint(folder, KINDS, _FIELDS)
    try:
        shape = exactly(_Shape, document["model"])
        settings = exactly(RoutingOnlySettings, document["settings"])
        wanted = shapes(shape.layers, shape.experts, settings)
        if set(arrays) != set(wanted):
            raise ValueError(f"the arrays {', '.join(sorted(arrays))[:200]}")
        if any(array.dtype != np.float32 for array in arrays.values()):
            raise ValueError("arrays of another type than float32")
        model = RoutingOnlyModel(
            name=shape.name,
            fingerprint=shape.fingerprint,
            layers=shape.layers,
            experts=shape.experts,
            top_k=shape.top_k,
            settings=settings,
            split=exactly(SequenceSplit, document["split"]),
            cost_ns=cost_pairs(document["cost_ns"]),
            **arrays,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder}: expected a routing-only predictor, got {error}") from error
    if model.kind != kind:
        raise CheckpointError(
            f"{folder}: expected the settings of kind {kind!r}, got those of {model.kind!r}"
        )
    return model


def _plain(value: RoutingOnlySettings | SequenceSplit) -> dict[str, Any]:
    """Fields as JSON holds them: lists, no tuples."""
    pairs = dataclasses.asdict(value).items()
    return {name: list(field) if isinstance(field, tuple) else field for name, field in pairs}
