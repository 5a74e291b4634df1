"""Named cost models of published models on assumed machines (data/presets.json says what is assumed)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from prescope.formulation.cost_model import CostModel, Link
from prescope.formulation.instance import Tier
from prescope.formulation.time_curves import LinearTime

# dense_ns is quoted at batch 1 and grows as dense_ns * (1 + tokens / 256).
_DENSE_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Published shape of one model.

    Parameters
    ----------
    name
        Its name in presets.
    moe_layers, experts, top_k
        Number of MoE layers, experts per layer, experts per token.
    expert_bytes, expert_params
        Size of one expert.
    dense_ns
        Assumed time of a layer before its gate at batch 1.
    """

    name: str
    moe_layers: int
    experts: int
    top_k: int
    expert_bytes: int
    expert_params: int
    dense_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A model's shape with its costs on a machine.

    Parameters
    ----------
    name
        ``model@machine``.
    shape
        The model.
    costs
        Durations on that machine.
    tier, host_computes
        Where weights rest, and whether the host runs experts in place.
    """

    name: str
    shape: ModelShape
    costs: CostModel
    tier: Tier
    host_computes: bool


@cache
def _data() -> dict[str, Any]:
    text = files("prescope.formulation").joinpath("data/presets.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def model_names() -> tuple[str, ...]:
    """Names of the models with published shapes."""
    return tuple(_data()["models"])


def machine_names() -> tuple[str, ...]:
    """Names of the machines with assumed constants."""
    return tuple(_data()["machines"])


def model_shape(name: str) -> ModelShape:
    """The published shape of a model.

    Raises
    ------
    ValueError
        When the name is unknown; the message lists the known ones.
    """
    if name not in _data()["models"]:
        raise ValueError(f"expected a model among {', '.join(model_names())}, got {name!r}")
    entry = {key: value for key, value in _data()["models"][name].items() if key != "note"}
    return ModelShape(name=name, **entry)


def preset(name: str, *, layers: int | None = None) -> Preset:
    """The cost model ``"model@machine"``, for example ``"qwen3-30b-a3b@a100-pcie4"``.

    Parameters
    ----------
    name
        Model and machine joined by ``@``.
    layers
        Use this many layers instead of the model's own (to drive a smaller model with its costs).

    Raises
    ------
    ValueError
        When either name is unknown; the message lists the known ones.
    """
    model, separator, machine = name.partition("@")
    if not separator:
        raise ValueError(f"expected a preset of the form 'model@machine', got {name!r}")
    shape = model_shape(model)
    return shape_on_machine(shape, machine, layers=layers, source=f"preset {name} (published shape")


def shape_on_machine(shape: ModelShape, machine: str, *, layers: int | None, source: str) -> Preset:
    """The costs of any shape with a machine's assumed constants.

    Parameters
    ----------
    shape
        The model.
    machine
        One of `machine_names`.
    layers
        As for `preset`.
    source
        Where the shape comes from.

    Raises
    ------
    ValueError
        When the machine is unknown; the message lists the known ones.
    """
    if machine not in _data()["machines"]:
        raise ValueError(f"expected a machine among {', '.join(machine_names())}, got {machine!r}")
    constants = _data()["machines"][machine]
    costs = CostModel(
        expert_bytes=(shape.expert_bytes,) * (shape.moe_layers if layers is None else layers),
        link=Link(
            bytes_per_s=int(constants["link_bytes_per_s"]), latency_ns=int(constants["link_latency_ns"])
        ),
        gpu=(_expert_time(shape, constants, "gpu"),),
        cpu=(_expert_time(shape, constants, "cpu"),),
        dense=(LinearTime(fixed_ns=shape.dense_ns, per_token_ns=shape.dense_ns / _DENSE_TOKENS),),
        source=f"{source}, assumed machine constants)",
    )
    tier = Tier(constants.get("tier", "ram"))
    host_computes = bool(constants.get("compute_in_place", True))
    return Preset(
        name=f"{shape.name}@{machine}", shape=shape, costs=costs, tier=tier, host_computes=host_computes
    )


def _expert_time(shape: ModelShape, constants: dict[str, Any], side: str) -> LinearTime:
    if f"{side}_flops" not in constants:
        # A machine whose host cannot compute quotes no host constants.
        return LinearTime(fixed_ns=0)
    read_ns = shape.expert_bytes / constants[f"{side}_bytes_per_s"] * 1e9
    return LinearTime(
        fixed_ns=int(constants[f"{side}_overhead_ns"]) + round(read_ns),
        per_token_ns=2 * shape.expert_params / constants[f"{side}_flops"] * 1e9,
    )
