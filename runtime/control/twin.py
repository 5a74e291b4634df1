"""Twins of an instance whose demand is what was predicted, for methods that need known counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from prescope.formulation import CostModel, Demand, Instance, Plan, PredictedDemand
from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.time_curves import TableTime, TimeCurve

Planner = Callable[[Instance], Plan]


def predicted_of(instance: Instance) -> PredictedDemand:
    """The instance's predictions.

    Raises
    ------
    ValueError
        When there are none.
    """
    if instance.predicted is None:
        raise ValueError(f"expected predicted demand in instance {instance.name!r}, got none")
    return instance.predicted


def predicted_twin(instance: Instance) -> Instance:
    """The instance with the demand that was predicted; the true counts are not in it.

    Each layer has the earliest word on it that can still lead to a copy: ``lookahead`` or all predicted
    horizons ahead, whichever is less. A plan made for the twin in one piece may lean on what is said of
    later layers only after its first copies are under way, so it is a little better informed than a method
    that runs beside the step. Layers farther apart than that do not mix in `window_twin`.

    Raises
    ------
    ValueError
        When the instance has no predictions.
    """
    predicted = predicted_of(instance)
    ahead = min(max(1, instance.lookahead), predicted.horizons)
    rows = [_row(instance, predicted, min(ahead, layer + 1) - 1, layer) for layer in range(instance.layers)]
    return replace(
        instance,
        name=f"{instance.name}-predicted",
        demand=Demand(counts=np.array(rows), batch_tokens=instance.demand.batch_tokens),
        lookahead=min(instance.lookahead, predicted.horizons),
        predicted=None,
    )


def window_twin(
    instance: Instance, *, gate: int, held: tuple[frozenset[int], ...], slots: int, lead_ns: int
) -> Instance:
    """The coming layers as they are predicted at one gate, as an instance of their own.

    Parameters
    ----------
    instance
        With ``predicted``.
    gate
        Layer at whose gate the predictions are said; -1 is the start of the step.
    held
        Per coming layer, the experts whose weights are on the device or on their way. Their number is the
        number of layers of the twin.
    slots
        Slots left for other copies.
    lead_ns
        How long before the start of the first coming layer the link is free; negative where it is later.
    """
    predicted = predicted_of(instance)
    targets = range(gate + 1, gate + 1 + len(held))
    rows = [_row(instance, predicted, ahead, layer) for ahead, layer in enumerate(targets)]
    return replace(
        instance,
        name=f"{instance.name}-gate-{gate}",
        costs=_cut(instance.costs, targets, instance.demand.batch_tokens, max(0, lead_ns)),
        demand=Demand(counts=np.array(rows), batch_tokens=instance.demand.batch_tokens),
        residents=tuple(tuple(sorted(row)) for row in held),
        slots=slots,
        lookahead=max(1, len(held)),
        link_ready_ns=max(0, -lead_ns),
        prediction_ns=(),
        predicted=None,
    )


def rounded_counts(probability: FloatArray, expected: FloatArray, *, batch_tokens: int) -> IntArray:
    """Whole token counts that stand for a prediction.

    As many experts as the probabilities add up to, the most probable first (the lower number where two are
    equal), each with its mean tokens given that it is needed; all arrays ``[experts]``.
    """
    number = int(np.floor(probability.sum() + 0.5))
    chosen = np.argsort(-probability, kind="stable")[:number]
    chosen = chosen[probability[chosen] > 0]
    counts = np.zeros(probability.shape[0], dtype=np.int64)
    mean = expected[chosen] / probability[chosen]
    counts[chosen] = np.clip(np.rint(mean), min(1, batch_tokens), batch_tokens).astype(np.int64)
    return counts


def _row(instance: Instance, predicted: PredictedDemand, ahead: int, layer: int) -> IntArray:
    counts = rounded_counts(
        predicted.probabilities[ahead, layer],
        predicted.expected_tokens[ahead, layer],
        batch_tokens=instance.demand.batch_tokens,
    )
    if not instance.host_computes and instance.slots == 0:
        # Nothing can come in: what is not there cannot be asked for.
        missing = np.ones(counts.shape[0], dtype=np.bool_)
        missing[list(instance.residents[layer])] = False
        counts[missing] = 0
    return counts


def _cut(costs: CostModel, layers: range, tokens: int, lead_ns: int) -> CostModel:
    """The costs of some layers; the link's lead becomes time before the first gate."""
    dense = [costs.dense_ns(layer, tokens) for layer in layers]
    dense[0] += lead_ns
    return replace(
        costs,
        expert_bytes=tuple(costs.expert_bytes[layer] for layer in layers),
        gpu=_curves(costs.gpu, layers),
        cpu=_curves(costs.cpu, layers),
        dense=tuple(TableTime(tokens=(1,), times_ns=(time_ns,)) for time_ns in dense),
    )


def _curves(values: tuple[TimeCurve, ...], layers: range) -> tuple[TimeCurve, ...]:
    return values if len(values) == 1 else tuple(values[layer] for layer in layers)
