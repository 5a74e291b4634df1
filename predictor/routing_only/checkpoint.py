"""A routing-only predictor on disk: ``predictor.json`` and ``weights.safetensors``."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from prescope.instances._atomic import atomic_file
from prescope.predictor.routing_only.model import RoutingOnlyModel, shapes
from prescope.predictor.routing_only.settings import RoutingOnlySettings
from prescope.predictor.split import SequenceSplit

FORMAT, VERSION = "prescope-predictor", 1
KINDS = ("routing-only", "ridge")
_JSON, _WEIGHTS = "predictor.json", "weights.safetensors"


class CheckpointError(ValueError):
    """A checkpoint folder that cannot be used: which file, what was expected, what was got."""


def save_routing_only(folder: str | os.PathLike[str], model: RoutingOnlyModel, *, notes: str = "") -> None:
    """Write a checkpoint folder; the JSON comes last, so that a folder with one is whole.

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

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    weights = save({name: getattr(model, name) for name in _arrays_of(model)})
    document = {
        "format": FORMAT,
        "version": VERSION,
        "kind": model.kind,
        "model": {
            "name": model.name,
            "fingerprint": model.fingerprint,
            "layers": model.layers,
            "experts": model.experts,
            "top_k": model.top_k,
        },
        "settings": dataclasses.asdict(model.settings),
        "split": dataclasses.asdict(model.split),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "notes": notes,
    }
    with atomic_file(place / _WEIGHTS) as stream:
        stream.write(weights)
    with atomic_file(place / _JSON) as stream:
        stream.write(json.dumps(document, indent=1).encode())


def load_routing_only(folder: str | os.PathLike[str]) -> RoutingOnlyModel:
    """Read a checkpoint folder.

    Raises
    ------
    CheckpointError
        When a file is missing, damaged, of another kind or version, or holds arrays of other shapes.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    place = Path(folder)
    document = _document(place / _JSON)
    try:
        weights = (place / _WEIGHTS).read_bytes()
    except OSError as error:
        raise CheckpointError(f"{place / _WEIGHTS}: expected the weights, got {error.strerror}") from error
    if hashlib.sha256(weights).hexdigest() != document["weights_sha256"]:
        raise CheckpointError(
            f"{place / _WEIGHTS}: expected the weights that {_JSON} was written with, got others; train again"
        )
    try:
        model, settings = document["model"], document["settings"]
        return RoutingOnlyModel(
            name=model["name"],
            fingerprint=model["fingerprint"],
            layers=model["layers"],
            experts=model["experts"],
            top_k=model["top_k"],
            settings=RoutingOnlySettings(**{**settings, "decays": tuple(settings["decays"])}),
            split=SequenceSplit(**{name: tuple(rows) for name, rows in document["split"].items()}),
            **load(weights),
        )
    except (KeyError, TypeError, ValueError, AttributeError, SafetensorError) as error:
        raise CheckpointError(f"{place}: expected a routing-only predictor, got {error}") from error


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: expected a checkpoint, got {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: expected JSON, got {error}") from error
    if not isinstance(document, dict):
        raise CheckpointError(f"{path}: expected an object, got {type(document).__name__}")
    for name, wanted in (("format", (FORMAT,)), ("version", (VERSION,)), ("kind", KINDS)):
        if document.get(name) not in wanted:
            expected = " or ".join(map(repr, wanted))
            raise CheckpointError(f"{path}: expected {name} {expected}, got {document.get(name)!r}")
    wanted_fields = {"format", "version", "kind", "model", "settings", "split", "weights_sha256", "notes"}
    if set(document) != wanted_fields:
        raise CheckpointError(f"{path}: expected the fields {sorted(wanted_fields)}, got {sorted(document)}")
    return document


def _arrays_of(model: RoutingOnlyModel) -> tuple[str, ...]:
    return tuple(shapes(model.layers, model.experts, model.settings))
