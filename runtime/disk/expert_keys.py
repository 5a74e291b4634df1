"""Which tensors of a checkpoint are expert weights: the names that families of models use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from prescope.runtime.disk.errors import CheckpointError


class Matrix(Enum):
    """A matrix of an expert, as checkpoints store it."""

    GATE = "gate"
    UP = "up"
    DOWN = "down"
    GATE_UP = "gate_up"


_PER_EXPERT = {
    "gate_proj": Matrix.GATE,
    "up_proj": Matrix.UP,
    "down_proj": Matrix.DOWN,
    # Mixtral's names.
    "w1": Matrix.GATE,
    "w3": Matrix.UP,
    "w2": Matrix.DOWN,
}
_FUSED = {"gate_up_proj": Matrix.GATE_UP, "down_proj": Matrix.DOWN}

# Shared experts (`shared_expert.`, `shared_experts.`) have no component that is exactly `experts`.
_EXPERTS = re.compile(r"(?P<prefix>(?:.*\.)?layers)\.(?P<layer>\d{1,6})\.(?:.*\.)?experts\.(?P<rest>.+)")
_ONE = re.compile(r"(?P<expert>\d{1,6})\.(?P<matrix>\w+)\.weight")
_ALL = re.compile(r"(?P<matrix>\w+?)(?:\.weight)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertKey:
    """What the name of an expert tensor says.

    Parameters
    ----------
    name
        The tensor's name.
    prefix
        What stands before the layer's number.
    decoder_layer
        Index among all decoder layers.
    expert
        Its expert; ``None`` for a tensor ``[experts, rows, columns]`` of all experts.
    matrix
        Which matrix it is.
    """

    name: str
    prefix: str
    decoder_layer: int
    expert: int | None
    matrix: Matrix


def expert_key(name: str) -> ExpertKey | None:
    """What the name of a tensor says; ``None`` when it is not an expert's.

    Raises
    ------
    CheckpointError
        When it is an expert's but of a kind that is not supported, such as a bias or a quantisation scale.
    """
    found = _EXPERTS.fullmatch(name)
    if found is None:
        return None
    rest = found["rest"]
    one, fused = _ONE.fullmatch(rest), _ALL.fullmatch(rest)
    expert, matrix = None, None
    if one is not None:
        expert, matrix = int(one["expert"]), _PER_EXPERT.get(one["matrix"])
    elif fused is not None:
        matrix = _FUSED.get(fused["matrix"])
    if matrix is None:
        raise CheckpointError(
            f"{name}: expected expert weights ({', '.join((*_PER_EXPERT, *_FUSED))}), got something else: "
            "biases and quantised experts are not supported, use a bfloat16, float16 or float32 checkpoint"
        )
    return ExpertKey(
        name=name, prefix=found["prefix"], decoder_layer=int(found["layer"]), expert=expert, matrix=matrix
    )


def expert_keys(names: Iterable[str]) -> tuple[ExpertKey, ...]:
    """All expert tensors among ``names``, in their order.

    Raises
    ------
    CheckpointError
        When there are none, several stacks of layers, or a name is not supported.
    """
    keys = tuple(key for name in names if (key := expert_key(name)) is not None)
    if not keys:
        raise CheckpointError(
            "expected tensors such as model.layers.0.mlp.experts.0.gate_proj.weight, got none: "
            "this is not a Mixture-of-Experts checkpoint of a supported family"
        )
    prefixes = sorted({key.prefix for key in keys})
    if len(prefixes) > 1:
        raise CheckpointError(f"expected one stack of layers with experts, got {', '.join(prefixes)}")
    return keys
