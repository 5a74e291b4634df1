"""A trained LLaPor on disk: ``predictor.json`` and ``weights.safetensors``."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prescope.predictor.checkpoint_files import (
    Arrays,
    CheckpointError,
    cost_pairs,
    exactly,
    read_checkpoint,
    write_checkpoint,
)
from prescope.predictor.llapor.basis import Basis
from prescope.predictor.llapor.model import LlaporModel, ModelFacts, make_network, network_shapes
from prescope.predictor.llapor.packing import pack, unpack
from prescope.predictor.llapor.settings import LlaporSettings
from prescope.predictor.split import SequenceSplit

KIND = "llapor"
_FIELDS = ("model", "settings", "split", "groups", "cost_ns", "notes")
_BASIS = tuple(field.name for field in dataclasses.fields(Basis))


def save_llapor(
    folder: str | os.PathLike[str], model: LlaporModel, *, notes: str = "", compact: bool = False
) -> None:
    """Write a checkpoint folder; the JSON comes last, so that a folder with one is whole.

    Parameters
    ----------
    folder
        Is made where missing; an older checkpoint in it is replaced.
    model
        Trained.
    notes
        Anything worth knowing of the training.
    compact
        Keep large matrices in 8 bits with a scale for every row, instead of in half precision.
    """
    from safetensors.numpy import save

    document = {
        "model": dataclasses.asdict(model.facts),
        "settings": dataclasses.asdict(model.settings),
        "split": {name: list(rows) for name, rows in dataclasses.asdict(model.split).items()},
        "groups": list(model.groups),
        "cost_ns": [list(pair) for pair in model.cost_ns],
        "notes": notes,
    }
    arrays: Arrays = {}
    for name, value in _tensors(model).items():
        arrays |= pack(name, value.detach().numpy(), compact=compact)
    # A few numbers that everything is multiplied with: whole precision costs nothing.
    arrays |= {"correction": model.correction, "prior": model.prior}
    write_checkpoint(folder, KIND, document, save(arrays))


def load_llapor(folder: str | os.PathLike[str]) -> LlaporModel:
    """Read a checkpoint folder.

    Raises
    ------
    CheckpointError
        When a file is missing, damaged, of another kind or version, or holds arrays of other shapes.
    """
    _, document, arrays = read_checkpoint(folder, (KIND,), _FIELDS)
    try:
        return _model(document, unpack(arrays))
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        problem = " ".join(str(error).split())[:300]
        raise CheckpointError(f"{folder}: expected a predictor of kind {KIND!r}, got {problem}") from error


def _model(document: dict[str, Any], arrays: Arrays) -> LlaporModel:
    facts = exactly(ModelFacts, document["model"])
    settings = exactly(LlaporSettings, document["settings"])
    split = exactly(SequenceSplit, document["split"])
    layers, hidden = facts.layers, facts.hidden_size
    groups = tuple(document["groups"])
    if len(groups) != layers or not {*groups} <= {"near-input", "middle", "near-output"}:
        raise ValueError(f"groups {groups}, expected one for each of {layers} sources")
    cost_ns = cost_pairs(document["cost_ns"])
    if len(cost_ns) not in (0, layers):
        raise ValueError(f"{len(cost_ns)} costs, expected {layers} or none")
    basis = Basis(**{name: torch.from_numpy(arrays.pop(f"basis.{name}")) for name in _BASIS})
    kept, history = (part.shape[-1] for part in (basis.tokens, basis.recall))
    _require("mean", basis.mean, (layers, hidden))
    _require("project", basis.project, (layers, hidden, kept))
    _require("recall", basis.recall, (layers, hidden, history))
    _require("trend_scale", basis.trend_scale, (min(settings.trend, history),))
    _require("tokens", basis.tokens, (len(basis.tokens), kept))
    correction, prior = arrays.pop("correction"), arrays.pop("prior")
    _require("correction", correction, (layers, settings.horizons, 2))
    _require("prior", prior, (layers, facts.experts))
    networks = []
    for source, group in enumerate(groups):
        prefix = f"networks.{source}."
        mine = {
            name: arrays.pop(prefix + name) for name in network_shapes(facts, settings, basis, group, source)
        }
        # Before anything of that size is made.
        for name, shape in network_shapes(facts, settings, basis, group, source).items():
            _require(prefix + name, mine[name], shape)
        network = make_network(facts, settings, basis, group, source, seed=0)
        network.load_state_dict({name: torch.from_numpy(array) for name, array in mine.items()})
        networks.append(network.eval().requires_grad_(False))
    if arrays:
        raise ValueError(f"arrays that nothing needs: {', '.join(sorted(arrays)[:4])}")
    return LlaporModel(
        facts=facts,
        settings=settings,
        split=split,
        groups=groups,
        basis=basis,
        networks=tuple(networks),
        correction=correction,
        prior=prior,
        cost_ns=cost_ns,
    )


def _tensors(model: LlaporModel) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {f"basis.{name}": getattr(model.basis, name) for name in _BASIS}
    for source, network in enumerate(model.networks):
        found |= {f"networks.{source}.{name}": value for name, value in network.state_dict().items()}
    return found


def _require(name: str, array: Tensor | np.ndarray[Any, Any], shape: tuple[int, ...]) -> None:
    if tuple(array.shape) != shape:
        raise ValueError(f"{name} of shape {tuple(array.shape)}, expected {shape}")
