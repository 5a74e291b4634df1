"""Between the types of the formulation and the records of the files, both ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from msgspec import UNSET, UnsetType

from prescope.formulation import (
    CostModel,
    Demand,
    Instance,
    LinearTime,
    Link,
    PredictedDemand,
    TableTime,
    Tier,
    TimeCurve,
)
from prescope.instances import _schema as schema
from prescope.instances.limits import MAX_TOTAL_NS


class FieldError(ValueError):
    """A value that fits its type but not its surroundings; ``field`` says where."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


@contextmanager
def at_field(field: str) -> Iterator[None]:
    """Name the field in every ``ValueError`` of the block."""
    try:
        yield
    except FieldError:
        raise
    except ValueError as error:
        raise FieldError(field, str(error)) from error


def instance_record(instance: Instance) -> schema.InstanceRecord:
    """The record of an instance."""
    predicted = instance.predicted
    return schema.InstanceRecord(
        name=instance.name,
        costs=costs_record(instance.costs),
        demand=schema.DemandRecord(
            batch_tokens=instance.demand.batch_tokens, counts=instance.demand.counts.tolist()
        ),
        residents=[list(row) for row in instance.residents],
        slots=instance.slots,
        lookahead=instance.lookahead,
        tier=instance.tier.value,
        host_computes=instance.host_computes,
        link_ready_ns=instance.link_ready_ns,
        predicted=None if predicted is None else predicted_record(predicted),
        prediction_ns=list(instance.prediction_ns) or UNSET,
    )


def instance_from_record(record: schema.InstanceRecord) -> Instance:
    """The instance of a record.

    Raises
    ------
    FieldError
        Naming the field whose value does not fit.
    """
    layers, experts = len(record.demand.counts), len(record.demand.counts[0])
    with at_field("instance.demand.counts"):
        _require_width(record.demand.counts, experts)
        counts = np.array(record.demand.counts, dtype=np.int64)
        demand = Demand(counts=counts, batch_tokens=record.demand.batch_tokens)
    with at_field("instance.costs"):
        costs = costs_from_record(record.costs)
        if costs.layers != layers:
            raise ValueError(f"expected costs for {layers} layers, got {costs.layers}")
        predictions_ns = 0 if isinstance(record.prediction_ns, UnsetType) else sum(record.prediction_ns)
        _require_64_bits(costs, demand, record.link_ready_ns + predictions_ns)
    with at_field("instance.predicted"):
        said = record.predicted
        predicted = None if said is None else predicted_from_record(said, layers, experts)
    with at_field("instance.residents"):
        for layer, row in enumerate(record.residents):
            if row != sorted(set(row)):
                raise ValueError(f"expected ascending distinct experts, got others in layer {layer}")
    with at_field("instance"):
        return Instance(
            name=record.name,
            costs=costs,
            demand=demand,
            residents=tuple(tuple(row) for row in record.residents),
            slots=record.slots,
            lookahead=record.lookahead,
            tier=Tier(record.tier),
            host_computes=record.host_computes,
            link_ready_ns=record.link_ready_ns,
            predicted=predicted,
            prediction_ns=() if isinstance(record.prediction_ns, UnsetType) else tuple(record.prediction_ns),
        )


def costs_record(costs: CostModel) -> schema.CostsRecord:
    """The record of a cost model."""
    return schema.CostsRecord(
        source=costs.source,
        expert_bytes=list(costs.expert_bytes),
        link=schema.LinkRecord(bytes_per_s=costs.link.bytes_per_s, latency_ns=costs.link.latency_ns),
        gpu=[_curve_record(curve) for curve in costs.gpu],
        cpu=[_curve_record(curve) for curve in costs.cpu],
        dense=[_curve_record(curve) for curve in costs.dense],
    )


def costs_from_record(record: schema.CostsRecord) -> CostModel:
    """The cost model of a record; ``ValueError`` where values do not fit together."""
    return CostModel(
        source=record.source,
        expert_bytes=tuple(record.expert_bytes),
        link=Link(bytes_per_s=record.link.bytes_per_s, latency_ns=record.link.latency_ns),
        gpu=tuple(_curve(curve) for curve in record.gpu),
        cpu=tuple(_curve(curve) for curve in record.cpu),
        dense=tuple(_curve(curve) for curve in record.dense),
    )


def _curve_record(curve: TimeCurve) -> schema.LinearRecord | schema.TableRecord:
    if isinstance(curve, LinearTime):
        # A whole number given as int is written as the float it means, so that it reads back equal.
        return schema.LinearRecord(fixed_ns=curve.fixed_ns, per_token_ns=float(curve.per_token_ns))
    return schema.TableRecord(tokens=list(curve.tokens), times_ns=list(curve.times_ns))


def _curve(record: schema.LinearRecord | schema.TableRecord) -> TimeCurve:
    if isinstance(record, schema.LinearRecord):
        return LinearTime(fixed_ns=record.fixed_ns, per_token_ns=record.per_token_ns)
    return TableTime(tokens=tuple(record.tokens), times_ns=tuple(record.times_ns))


def predicted_record(predicted: PredictedDemand) -> schema.PredictedRecord:
    """The record of predictions."""
    return schema.PredictedRecord(
        source=predicted.source,
        probabilities=predicted.probabilities.tolist(),
        expected_tokens=predicted.expected_tokens.tolist(),
    )


def predicted_from_record(record: schema.PredictedRecord, layers: int, experts: int) -> PredictedDemand:
    """The predictions of a record; ``ValueError`` where they do not fit the shape."""
    for name in ("probabilities", "expected_tokens"):
        for table in getattr(record, name):
            if len(table) != layers:
                raise ValueError(f"expected {name} for {layers} layers at every horizon, got {len(table)}")
            _require_width(table, experts)
    return PredictedDemand(
        source=record.source,
        probabilities=np.array(record.probabilities, dtype=np.float64),
        expected_tokens=np.array(record.expected_tokens, dtype=np.float64),
    )


def _require_width(rows: Sequence[Sequence[float]], experts: int) -> None:
    for layer, row in enumerate(rows):
        if len(row) != experts:
            raise ValueError(f"expected {experts} experts in every layer, got {len(row)} in layer {layer}")


def _require_64_bits(costs: CostModel, demand: Demand, other_ns: int) -> None:
    """Refuse costs whose sum over everything the batch could do does not fit the evaluator's integers."""
    total_ns = other_ns
    for layer in range(costs.layers):
        total_ns += costs.dense_ns(layer, demand.batch_tokens)
        tokens, experts = np.unique(demand.counts[layer], return_counts=True)
        for count, number in zip(tokens.tolist(), experts.tolist(), strict=True):
            each_ns = costs.copy_ns(layer) + costs.gpu_ns(layer, count) + costs.cpu_ns(layer, count)
            total_ns += number * each_ns
    if total_ns > MAX_TOTAL_NS:
        raise ValueError(f"expected durations that add up to at most {MAX_TOTAL_NS} ns, got {total_ns}")
