"""A trained LLaPor: its networks, what they are shown, and what it was trained on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.predictor.llapor.basis import Basis
from prescope.predictor.llapor.groups import Group
from prescope.predictor.llapor.network import SourceNetwork
from prescope.predictor.llapor.settings import LlaporSettings
from prescope.predictor.split import SequenceSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """The model whose routing was learnt.

    Parameters
    ----------
    name
        For people.
    fingerprint
        Identifies the weights of its gates; empty when not known.
    layers, experts, top_k, hidden_size
        Its shape.
    """

    name: str
    fingerprint: str
    layers: int
    experts: int
    top_k: int
    hidden_size: int

    def differences(self, other: ModelFacts) -> tuple[str, ...]:
        """What another model has differently; a fingerprint that is not known differs from none."""
        found = []
        for entry in ("layers", "experts", "top_k", "hidden_size"):
            if getattr(self, entry) != getattr(other, entry):
                found.append(f"{entry}: expected {getattr(self, entry)}, got {getattr(other, entry)}")
        if self.fingerprint and other.fingerprint and self.fingerprint != other.fingerprint:
            found.append(f"weights of the gates: expected {self.fingerprint}, got {other.fingerprint}")
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LlaporModel:
    """Everything a running predictor needs.

    Parameters
    ----------
    facts
        The model it belongs to.
    settings
        How it was trained.
    split
        Sequences of the training trace by purpose.
    groups
        Group of each source: the start of a step, then the gates that have a next layer.
    basis
        What the networks are shown.
    networks
        One per source.
    correction
        Batch corrections, float32 ``[sources, horizons, 2]``; see `prescope.predictor.calibration`.
    prior
        Share of each expert in training, float32 ``[layers, experts]``: what is said beyond the horizons.
    cost_ns
        Measured time of all horizons of each source for 1 and for 32 rows, on one core of the machine that
        trained it; empty when not measured.
    """

    facts: ModelFacts
    settings: LlaporSettings
    split: SequenceSplit
    groups: tuple[Group, ...]
    basis: Basis
    networks: tuple[SourceNetwork, ...]
    correction: npt.NDArray[np.float32]
    prior: npt.NDArray[np.float32]
    cost_ns: tuple[tuple[int, int], ...] = field(default=())

    @property
    def parameters(self) -> int:
        """Numbers in the networks."""
        return sum(value.numel() for network in self.networks for value in network.parameters())


def make_network(
    facts: ModelFacts, settings: LlaporSettings, basis: Basis, group: Group, source: int, *, seed: int
) -> SourceNetwork:
    """An untrained network of a source."""
    import torch

    built = _how_built(facts, settings, basis, group, source)
    return SourceNetwork(**built, generator=torch.Generator().manual_seed(seed))


def network_shapes(
    facts: ModelFacts, settings: LlaporSettings, basis: Basis, group: Group, source: int
) -> dict[str, tuple[int, ...]]:
    """Shape of every parameter of a source's network; nothing is made."""
    return SourceNetwork.shapes(**_how_built(facts, settings, basis, group, source))


def _how_built(
    facts: ModelFacts, settings: LlaporSettings, basis: Basis, group: Group, source: int
) -> dict[str, Any]:
    rest = 2 * facts.experts if source else 1
    return {
        "inputs": basis.components + rest + basis.history + basis.trend + 1,
        "main": basis.components,
        "horizons": settings.horizons_of(source, facts.layers),
        "experts": facts.experts,
        "group": settings.middle if group == "middle" else settings.outer,
    }
