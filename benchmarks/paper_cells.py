"""The setting of the paper as instances: model, machine, 24 GB of card memory, batch, phase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.paper_prediction import RECALL, predict
from prescope.formulation import Demand, Instance, LinearTime, ModelShape, model_shape, preset
from prescope.instances import (
    popularity,
    read_trace,
    synthetic_demand,
    synthetic_popularity,
    synthetic_settings,
)
from prescope.instances.shallow_residents import favour_shallow

MODELS = ("mixtral-8x7b", "deepseek-v2-lite", "qwen3-30b-a3b", "moonlight-16b-a3b")
MACHINES = ("v100-pcie3", "a100-pcie4")
BATCHES = (4, 8, 16, 32, 64)
INPUT_TOKENS, OUTPUT_TOKENS = 512, 64
CHUNK_TOKENS = 2048
"""A prompt of ``batch * 512`` tokens is taken in chunks; one of them is simulated and counted often."""

CARD_BYTES = 24 * 2**30
RESERVE_BYTES = 2 * 2**30
"""Assumed: activations, the CUDA context, fragmentation."""
# bf16, from the published shapes: all but the routed experts; keys and values of a token over all layers.
OTHER_WEIGHTS_BYTES = {
    "mixtral-8x7b": 3_210_000_000,
    "deepseek-v2-lite": 2_620_000_000,
    "qwen3-30b-a3b": 3_080_000_000,
    "moonlight-16b-a3b": 3_140_000_000,
}
CACHE_BYTES_PER_TOKEN = {
    "mixtral-8x7b": 131_072,
    "deepseek-v2-lite": 31_104,
    "qwen3-30b-a3b": 98_304,
    "moonlight-16b-a3b": 31_104,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One cell.

    Parameters
    ----------
    model, machine, batch
        Of the presets; sequences decoded together.
    memory
        ``"card"``: what 24 GB leave for experts; ``"quarter"``: a quarter of each layer and the slots.
    host
        Host time of an expert relative to the preset's, which assumes kernels at memory bandwidth.
    """

    model: str
    machine: str
    batch: int
    memory: str = "card"
    host: float = 1.0

    @property
    def name(self) -> str:
        """Name in files."""
        return f"{self.model}@{self.machine}-b{self.batch}-{self.memory}-host{self.host:g}"


def resident_total(setting: Setting) -> int:
    """Experts that can stay on the card beside the slots."""
    shape = model_shape(setting.model)
    everything = shape.moe_layers * shape.experts
    if setting.memory == "quarter":
        return shape.moe_layers * (shape.experts // 4)
    cache_bytes = setting.batch * (INPUT_TOKENS + OUTPUT_TOKENS) * CACHE_BYTES_PER_TOKEN[setting.model]
    free_bytes = CARD_BYTES - RESERVE_BYTES - OTHER_WEIGHTS_BYTES[setting.model] - cache_bytes
    slots = synthetic_settings().slots[setting.model]
    return min(everything, max(0, free_bytes // shape.expert_bytes - slots))


def build(setting: Setting, *, seed: int, prefill: bool = False, full_layers: int = 0) -> Instance:
    """One decode step, or one chunk of the prefill, with predictions of the measured recall.

    Parameters
    ----------
    setting
        The cell.
    seed
        Fixes popularity, batch and errors of the prediction.
    prefill
        A chunk of the prompts instead of a decode step.
    full_layers
        For residents that favour shallow layers; see `prescope.instances.favour_shallow`.
    """
    shape = model_shape(setting.model)
    chosen = preset(f"{setting.model}@{setting.machine}")
    tokens = CHUNK_TOKENS if prefill else setting.batch
    demand, shares = _demand(shape, tokens, seed), synthetic_popularity(shape, seed)
    costs = chosen.costs
    if setting.host != 1:
        slower = tuple(
            LinearTime(
                fixed_ns=round(curve.fixed_ns * setting.host), per_token_ns=curve.per_token_ns * setting.host
            )
            for curve in costs.cpu
            if isinstance(curve, LinearTime)
        )
        costs = replace(costs, cpu=slower, source=f"{costs.source}, host times x {setting.host:g}")
    return Instance(
        name=f"{setting.name}{'-prefill' if prefill else ''}-s{seed}",
        costs=costs,
        demand=demand,
        residents=favour_shallow(shares, total=resident_total(setting), full_layers=full_layers),
        slots=synthetic_settings().slots[setting.model],
        lookahead=shape.moe_layers,
        predicted=predict(demand, shares, recall=RECALL, seed=seed),
    )


@cache
def _demand(shape: ModelShape, tokens: int, seed: int) -> Demand:
    return synthetic_demand(shape, tokens, seed)


_TRACE = Path(__file__).resolve().parents[2] / "shared" / "traces" / "qwen3_30b_a3b.npz"


@cache
def _recorded_steps(batch: int) -> tuple[tuple[Demand, ...], npt.NDArray[np.float64]] | None:
    """Steps of the second half of the recorded tokens, and the popularity of the first half."""
    if not _TRACE.exists():
        return None
    trace = read_trace(_TRACE)
    half = trace.tokens // 2
    steps: list[Demand] = []
    for first in range(half, trace.tokens - batch + 1, batch):
        ids = trace.topk_ids[first : first + batch].astype(np.int64)
        counts = np.stack(
            [
                np.bincount(layer[layer < trace.meta.experts], minlength=trace.meta.experts)
                for layer in ids.transpose(1, 0, 2).reshape(trace.layers, -1)
            ]
        )
        steps.append(Demand(counts=counts, batch_tokens=batch))
    return tuple(steps), popularity(trace, rows=np.arange(half))


def recorded(setting: Setting, step: int) -> Instance | None:
    """A decode step of recorded routing: consecutive tokens of one sequence taken as a batch.

    Residents are the popular experts of the sequence's first half, steps come from the second. ``None`` when
    the recording is not here or has no such step.
    """
    steps = _recorded_steps(setting.batch)
    if steps is None or step >= len(steps[0]):
        return None
    instance = build(setting, seed=0)
    demand, shares = steps[0][step], steps[1]
    return replace(
        instance,
        name=f"{setting.name}-recorded-t{step}",
        demand=demand,
        residents=favour_shallow(shares, total=resident_total(setting)),
        predicted=predict(demand, _smooth(shares), recall=RECALL, seed=step),
    )


def _smooth(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Popularity of a short recording, mixed with the uniform one: what was not seen may still come."""
    mixed = 0.9 * shares / shares.sum(axis=1, keepdims=True) + 0.1 / shares.shape[1]
    normalised: npt.NDArray[np.float64] = mixed / mixed.sum(axis=1, keepdims=True)
    return normalised
