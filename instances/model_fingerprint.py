"""What a model must have in common with another one for measured costs to apply to both."""

from __future__ import annotations

from dataclasses import dataclass, fields

from prescope.formulation.checks import require_int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFingerprint:
    """The shape of a model, without its weights.

    Parameters
    ----------
    family
        ``config.model_type``.
    layers, decoder_layers
        MoE layers, and all decoder layers.
    experts, top_k
        Experts per MoE layer and experts per token.
    gate_up_shape, down_shape
        Shapes of one expert's two matrices, ``[2I, H]`` and ``[H, I]``.
    dense_parameters
        Number of parameters outside the experts.
    dtype
        Element type of the weights as the arithmetic sees them, for example ``"bfloat16"``.
    """

    family: str
    layers: int
    decoder_layers: int
    experts: int
    top_k: int
    gate_up_shape: tuple[int, int]
    down_shape: tuple[int, int]
    dense_parameters: int
    dtype: str

    def __post_init__(self) -> None:
        for name in ("layers", "experts", "top_k"):
            require_int(name, getattr(self, name), 1)
        require_int("decoder_layers", self.decoder_layers, self.layers)
        require_int("dense_parameters", self.dense_parameters, 0)
        for name in ("gate_up_shape", "down_shape"):
            shape = tuple(getattr(self, name))
            object.__setattr__(self, name, shape)
            if len(shape) != 2:
                raise ValueError(f"expected {name} with 2 sizes, got {shape}")
            for size in shape:
                require_int(name, size, 1)
        for name in ("family", "dtype"):
            if not getattr(self, name):
                raise ValueError(f"expected a {name}, got an empty text")

    def differences(self, other: ModelFingerprint) -> tuple[str, ...]:
        """What another model has differently, as ``"field: expected X, got Y"``; empty when it fits."""
        found = []
        for entry in fields(self):
            mine, others = getattr(self, entry.name), getattr(other, entry.name)
            if mine != others:
                found.append(f"{entry.name}: expected {_text(mine)}, got {_text(others)}")
        return tuple(found)

    def describe(self) -> str:
        """One line for people."""
        return (
            f"{self.family}, {self.layers} MoE layers of {self.experts} experts (top {self.top_k}), "
            f"gate_up {_text(self.gate_up_shape)}, down {_text(self.down_shape)}, {self.dtype}"
        )


def _text(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
