"""A trained LLaPor on disk: ``predictor.json`` and ``weights.safetensors``."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prescope.instances._atomic import atomic_file
from prescope.predictor.llapor.basis import Basis
from prescope.predictor.llapor.model import LlaporModel, ModelFacts, make_network
from prescope.predictor.llapor.settings import GroupSettings, LlaporSettings
from prescope.predictor.split import SequenceSplit

FORMAT, VERSION, KIND = "prescope-predictor", 1, "llapor"
_JSON, _WEIGHTS = "predictor.json", "weights.safetensors"
_FIELDS = {
    "format", "version", "kind", "model", "settings", "split", "groups", "cost_ns", "weights_sha256", "notes",
}  # fmt: skip
_BASIS = tuple(field.name for field in dataclasses.fields(Basis))


class LlaporFileError(ValueError):
    """A checkpoint that cannot be used: which file, what was expected, what was got."""


def save_llapor(folder: str | os.PathLike[str], model: LlaporModel, *, notes: str = "") -> None:
    """Write a checkpoint folder, in half precision; the JSON comes last, so a folder with one is whole.

    Parameters
    ----------
    folder
        Is made where missing; an older checkpoint in it is replaced.
    model
        Trained.
    notes
        Anything worth knowing of the training.
    """
    from safetensors.torch import save

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    weights = save({name: value.contiguous() for name, value in _tensors(model).items()})
    document = {
        "format": FORMAT,
        "version": VERSION,
        "kind": KIND,
        "model": dataclasses.asdict(model.facts),
        "settings": dataclasses.asdict(model.settings),
        "split": dataclasses.asdict(model.split),
        "groups": list(model.groups),
        "cost_ns": [list(pair) for pair in model.cost_ns],
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "notes": notes,
    }
    with atomic_file(place / _WEIGHTS) as stream:
        stream.write(weights)
    with atomic_file(place / _JSON) as stream:
        stream.write(json.dumps(document, indent=1).encode())


def load_llapor(folder: str | os.PathLike[str]) -> LlaporModel:
    """Read a checkpoint folder.

    Raises
    ------
    LlaporFileError
        When a file is missing, damaged, of another kind or version, or holds tensors of other shapes.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    place = Path(folder)
    document = _document(place / _JSON)
    try:
        weights = (place / _WEIGHTS).read_bytes()
    except OSError as error:
        raise LlaporFileError(f"{place / _WEIGHTS}: expected the weights, got {error.strerror}") from error
    if hashlib.sha256(weights).hexdigest() != document["weights_sha256"]:
        raise LlaporFileError(
            f"{place / _WEIGHTS}: expected the weights that {_JSON} was written with, got others; train again"
        )
    try:
        return _model(document, {name: value.float() for name, value in load(weights).items()})
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, SafetensorError) as error:
        raise LlaporFileError(f"{place}: expected a predictor of kind {KIND!r}, got {error}") from error


def _model(document: dict[str, Any], tensors: dict[str, Tensor]) -> LlaporModel:
    if not all(bool(value.isfinite().all()) for value in tensors.values()):
        raise ValueError("numbers that are not finite")
    facts = ModelFacts(**document["model"])
    given = dict(document["settings"])
    outer, middle = (GroupSettings(**given.pop(name)) for name in ("outer", "middle"))
    settings = LlaporSettings(outer=outer, middle=middle, **given)
    groups = tuple(document["groups"])
    cost_ns = tuple((int(one), int(many)) for one, many in document["cost_ns"])
    basis = Basis(**{name: tensors.pop(f"basis.{name}") for name in _BASIS})
    layers, hidden = facts.layers, facts.hidden_size
    shapes = {
        "mean": (layers, hidden),
        "project": (layers, hidden, basis.components),
        "recall": (layers, hidden, basis.history),
        "tokens": (basis.tokens.shape[0], basis.components),
    }
    for name, shape in shapes.items():
        if tuple(getattr(basis, name).shape) != shape:
            raise ValueError(f"{name} of shape {tuple(getattr(basis, name).shape)}, expected {shape}")
    if len(groups) != layers or len(cost_ns) not in (0, layers):
        raise ValueError(f"{len(groups)} groups and {len(cost_ns)} costs, expected {layers}")
    correction, prior = (tensors.pop(name).numpy() for name in ("correction", "prior"))
    if correction.shape != (layers, settings.horizons, 2) or prior.shape != (layers, facts.experts):
        raise ValueError(f"corrections of shape {correction.shape} and shares of {prior.shape}")
    networks = []
    for source in range(layers):
        network = make_network(facts, settings, basis, groups[source], source, seed=0)
        prefix = f"networks.{source}."
        mine = [name for name in tensors if name.startswith(prefix)]
        network.load_state_dict({name.removeprefix(prefix): tensors.pop(name) for name in mine})
        networks.append(network.eval().requires_grad_(False))
    if tensors:
        raise ValueError(f"tensors that nothing needs: {', '.join(sorted(tensors)[:4])}")
    return LlaporModel(
        facts=facts,
        settings=settings,
        split=SequenceSplit(**{name: tuple(rows) for name, rows in document["split"].items()}),
        groups=groups,
        basis=basis,
        networks=tuple(networks),
        correction=correction,
        prior=prior,
        cost_ns=cost_ns,
    )


def _tensors(model: LlaporModel) -> dict[str, Tensor]:
    found = {f"basis.{name}": getattr(model.basis, name).half() for name in _BASIS}
    for source, network in enumerate(model.networks):
        found |= {f"networks.{source}.{name}": value.half() for name, value in network.state_dict().items()}
    # A few numbers that everything is multiplied with: whole precision costs nothing.
    found |= {name: torch.from_numpy(np.array(getattr(model, name))) for name in ("correction", "prior")}
    return found


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise LlaporFileError(
            f"{path}: expected a checkpoint of `prescope train`, got {error.strerror}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise LlaporFileError(f"{path}: expected JSON, got {error}") from error
    if not isinstance(document, dict):
        raise LlaporFileError(f"{path}: expected an object, got {type(document).__name__}")
    for name, wanted in (("format", FORMAT), ("version", VERSION), ("kind", KIND)):
        if document.get(name) != wanted:
            raise LlaporFileError(f"{path}: expected {name} {wanted!r}, got {document.get(name)!r}")
    if set(document) != _FIELDS:
        odd = sorted(set(document) ^ _FIELDS)
        raise LlaporFileError(f"{path}: expected the fields {sorted(_FIELDS)}, differing in {odd}")
    return document
