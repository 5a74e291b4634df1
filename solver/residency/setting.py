"""What a residency rule may know of a horizon before it begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.horizon import Horizon, Residents


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RuleSetting:
    """What is known beforehand; a rule learns of the steps as they end.

    Parameters
    ----------
    layers, experts
        Shape of the model.
    expert_bytes
        Bytes of an expert, per layer.
    residents
        Who has a place in the first step.
    tokens
        Most tokens of a step.
    fixed_ns, per_token_ns
        What an expert that is not there costs: the host's time for it, or that of its copy where the host
        cannot compute.
    start
        Probability that a token chooses each expert, by the history; all equal without one. Float64
        ``[layers, experts]``, each row adding up to the experts of a token (1 without a history).
    history
        Sequences of earlier steps: tokens, int64 ``[steps, layers, experts]`` each.
    demands
        Tokens of every step, int64 ``[layers, experts]`` each: for rules that say that they know the
        future, empty for others.
    """

    layers: int
    experts: int
    expert_bytes: tuple[int, ...]
    residents: Residents
    tokens: int
    fixed_ns: float
    per_token_ns: float
    start: FloatArray
    history: tuple[IntArray, ...]
    demands: tuple[IntArray, ...] = ()


def rule_setting(horizon: Horizon, *, knows_demand: bool = False) -> RuleSetting:
    """What a rule is told of a horizon."""
    fixed_ns, per_token_ns = _cost(horizon)
    return RuleSetting(
        layers=horizon.layers,
        experts=horizon.experts,
        expert_bytes=horizon.costs.expert_bytes,
        residents=horizon.residents,
        tokens=max(demand.batch_tokens for demand in horizon.demands),
        fixed_ns=fixed_ns,
        per_token_ns=per_token_ns,
        start=_start(horizon),
        history=tuple(
            np.stack([demand.counts for demand in sequence]) for sequence in horizon.history if sequence
        ),
        demands=tuple(demand.counts for demand in horizon.demands) if knows_demand else (),
    )


def _cost(horizon: Horizon) -> tuple[float, float]:
    if not horizon.host_computes:
        return float(horizon.costs.copy_ns(0)), 0.0
    curve = horizon.costs.cpu[0]
    one_ns, two_ns = curve(1), curve(2)
    return float(2 * one_ns - two_ns), float(two_ns - one_ns)


def _start(horizon: Horizon) -> FloatArray:
    counts = np.zeros((horizon.layers, horizon.experts))
    tokens = 0
    for sequence in horizon.history:
        for demand in sequence:
            counts += demand.counts
            tokens += demand.batch_tokens
    rows = counts.sum(axis=1, keepdims=True)
    even = np.full_like(counts, 1 / horizon.experts)
    start: FloatArray = np.where(rows > 0, counts / max(1, tokens), even)
    return start
