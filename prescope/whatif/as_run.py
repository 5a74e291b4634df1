"""Costs as recorded steps really had them, where a profile and the running machine have drifted apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from prescope.formulation import (
    CostModel,
    Instance,
    Lane,
    LinearTime,
    Schedule,
    TableTime,
    Task,
    TaskKind,
    TimeCurve,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long work really took, as a multiple of what its cost model says; 1 where there was none.

    Parameters
    ----------
    dense
        From a layer's start to its gate, deciding included.
    gpu, cpu
        Experts on either side.
    copy
        Copies, by the time that the link was busy with them.
    """

    dense: float = 1.0
    gpu: float = 1.0
    cpu: float = 1.0
    copy: float = 1.0


def pace_of(steps: Iterable[tuple[Instance, Schedule]]) -> Pace:
    """The pace of executed steps.

    Parameters
    ----------
    steps
        Each step with its costs and true tokens, and what was executed.

    Raises
    ------
    ValueError
        When there are no steps.
    """
    real = dict.fromkeys(("dense", "gpu", "cpu", "copy"), 0)
    modelled = dict.fromkeys(real, 0)
    number = 0
    for instance, schedule in steps:
        number += 1
        copies = [task for task in schedule.tasks if task.kind is TaskKind.COPY]
        real["copy"] += busy_ns(copies)
        modelled["copy"] += sum(instance.costs.copy_ns(task.layer) for task in copies)
        for task in schedule.tasks:
            kind = _kind(task)
            if kind is not None:
                real[kind] += task.end_ns - task.start_ns
                modelled[kind] += _modelled_ns(instance, task)
    if not number:
        raise ValueError("expected executed steps, got none")
    return Pace(**{kind: real[kind] / modelled[kind] if modelled[kind] else 1.0 for kind in real})


def costs_at_pace(costs: CostModel, pace: Pace) -> CostModel:
    """Costs with all durations of a kind multiplied by its pace."""
    link = replace(
        costs.link,
        bytes_per_s=max(1, round(costs.link.bytes_per_s / pace.copy)),
        latency_ns=round(costs.link.latency_ns * pace.copy),
    )
    return replace(
        costs,
        link=link,
        gpu=tuple(_stretched(curve, pace.gpu) for curve in costs.gpu),
        cpu=tuple(_stretched(curve, pace.cpu) for curve in costs.cpu),
        dense=tuple(_stretched(curve, pace.dense) for curve in costs.dense),
        source=f"{costs.source}, at the pace of recorded steps",
    )


def busy_ns(tasks: Iterable[Task]) -> int:
    """For how long at least one of the tasks ran."""
    busy, end = 0, 0
    for task in sorted(tasks, key=lambda one: one.start_ns):
        busy += max(0, task.end_ns - max(task.start_ns, end))
        end = max(end, task.end_ns)
    return busy


def _kind(task: Task) -> str | None:
    if task.kind is TaskKind.DENSE:
        return "dense"
    if task.kind is TaskKind.COMPUTE:
        return "cpu" if task.lane is Lane.CPU else "gpu"
    return None


def _modelled_ns(instance: Instance, task: Task) -> int:
    costs, demand = instance.costs, instance.demand
    if task.kind is TaskKind.DENSE:
        return costs.dense_ns(task.layer, demand.batch_tokens)
    tokens = int(demand.counts[task.layer, task.expert or 0])
    if task.lane is Lane.CPU:
        return costs.cpu_ns(task.layer, tokens)
    return costs.gpu_ns(task.layer, tokens)


def _stretched(curve: TimeCurve, pace: float) -> TimeCurve:
    if isinstance(curve, LinearTime):
        return LinearTime(fixed_ns=round(curve.fixed_ns * pace), per_token_ns=curve.per_token_ns * pace)
    return TableTime(tokens=curve.tokens, times_ns=tuple(round(time_ns * pace) for time_ns in curve.times_ns))
