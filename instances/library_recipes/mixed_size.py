"""Set ``mixed-size``: layers quantised to different widths, so experts differ in size from layer to layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from prescope.formulation import CostModel, LinearTime, preset
from prescope.instances.instance_file import InstanceFile
from prescope.instances.library_recipes.sources import fitted_instances

_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b", "olmoe-1b-7b")
# Machine, batch, slots, lookahead, pattern.
_CASES: tuple[tuple[str, int, int, int | None, str], ...] = (
    ("a100-pcie4", 1, 4, None, "ends"),
    ("rtx4090-desktop", 8, 2, None, "alternating"),
    ("h100-pcie5", 8, 4, 2, "ends"),
    ("v100-pcie3", 1, 2, 2, "alternating"),
    ("h100-pcie5", 32, 4, None, "ramp"),
    ("rtx4090-desktop", 1, 1, None, "ramp"),
)
_BITS = {"low": 4.5, "middle": 6.5625, "high": 8.5}


def layer_bits(pattern: str, layers: int) -> tuple[float, ...]:
    """Bits per weight of each layer.

    ``ends``: the first and last eighth of the layers high, every third of the others middle, the rest low
    (common in mixed 4-bit files); ``alternating``: high and low in turn; ``ramp``: low, middle, high thirds.
    """
    if pattern == "ends":
        edge = max(1, layers // 8)
        return tuple(
            _BITS["high" if at < edge or at >= layers - edge else "middle" if at % 3 == 0 else "low"]
            for at in range(layers)
        )
    if pattern == "alternating":
        return tuple(_BITS["high" if layer % 2 == 0 else "low"] for layer in range(layers))
    return tuple(_BITS[("low", "middle", "high")[3 * layer // layers]] for layer in range(layers))


def quantised(model: str, machine: str, pattern: str) -> CostModel:
    """A preset's costs with sizes, and the times to read weights, scaled by each layer's width."""
    chosen = preset(f"{model}@{machine}")
    costs, shape = chosen.costs, chosen.shape
    # What is quoted for MXFP4 is 4.25 bits already.
    nominal = 8 * shape.expert_bytes / shape.expert_params
    bits = layer_bits(pattern, costs.layers)
    ratios = [width / nominal for width in bits]

    def scaled(curve: object, ratio: float) -> LinearTime:
        if not isinstance(curve, LinearTime):
            raise TypeError(f"expected a linear preset, got {type(curve).__name__}")
        return LinearTime(fixed_ns=max(1, round(curve.fixed_ns * ratio)), per_token_ns=curve.per_token_ns)

    return replace(
        costs,
        expert_bytes=tuple(round(size * r) for size, r in zip(costs.expert_bytes, ratios, strict=True)),
        gpu=tuple(scaled(costs.gpu[0], ratio) for ratio in ratios),
        cpu=tuple(scaled(costs.cpu[0], ratio) for ratio in ratios),
        source=f"{costs.source}, layers quantised to {min(bits):g} to {max(bits):g} bits ({pattern})",
    )


def mixed_size_set() -> Iterator[InstanceFile]:
    """Four models, six cases each."""
    for model in _MODELS:
        for machine, batch, slots, ahead, pattern in _CASES:
            yield from fitted_instances(
                model,
                machine,
                batch,
                slots=slots,
                lookahead=ahead,
                costs=quantised(model, machine, pattern),
                label=pattern,
            )
