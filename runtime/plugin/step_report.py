"""Sums up one step: its times, its lanes, and what its copies were worth."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation import Instance, Lane, Plan, Schedule, TaskKind
from prescope.runtime.plugin.report import StepReport
from prescope.runtime.plugin.settings import StepRecord


def step_report(
    *,
    step: int,
    phase: str,
    record: StepRecord,
    simulated_ns: int | None,
    executed_ns: int | None,
    plan_ns: int,
) -> StepReport:
    """Report of a finished step.

    Parameters
    ----------
    step, phase, simulated_ns, executed_ns, plan_ns
        As in `StepReport`.
    record
        The step in full.
    """
    counts, trace, layers = record.instance.demand.counts, record.trace, record.plan.layers
    worth = copy_worth(record.instance, record.plan, record.planned)
    return StepReport(
        step=step,
        phase=phase,
        tokens=record.tokens,
        planned_ns=record.planned.makespan_ns,
        simulated_ns=simulated_ns,
        executed_ns=executed_ns,
        bytes_moved=trace.bytes_moved,
        activated=worth.activated,
        hits=worth.hits,
        prefetch_useful=worth.prefetch_useful,
        prefetch_wasted=worth.prefetch_wasted,
        prefetch_late=worth.prefetch_late,
        gpu_experts=sum(len(row.gpu) for row in layers),
        cpu_experts=sum(len(row.cpu) for row in layers),
        gpu_tokens=sum(int(counts[layer, list(row.gpu)].sum()) for layer, row in enumerate(layers)),
        cpu_tokens=sum(int(counts[layer, list(row.cpu)].sum()) for layer, row in enumerate(layers)),
        plan_ns=plan_ns,
        exchanges=len(record.exchanges),
        violations={entry.kind: entry.count for entry in trace.violations},
        timed_ops=sum(entry.total for entry in trace.violations),
        degraded=trace.degraded,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWorth:
    """How a step's activated experts met their weights; fields as in `StepReport`."""

    activated: int
    hits: int
    prefetch_useful: int
    prefetch_wasted: int
    prefetch_late: int


def copy_worth(instance: Instance, plan: Plan, schedule: Schedule) -> CopyWorth:
    """Judge a decided step's copies by its planned schedule."""
    counts = instance.demand.counts
    gate_ns = {task.layer: task.end_ns for task in schedule.tasks if task.kind is TaskKind.DENSE}
    used = {(layer, expert) for layer, row in enumerate(plan.layers) for expert in row.gpu}
    issued = {(copy.layer, copy.expert): copy.gate for copy in plan.transfers}
    hits = sum(
        int(counts[layer, expert] > 0) for layer, row in enumerate(instance.residents) for expert in row
    )
    useful = wasted = late = 0
    for task in schedule.lane(Lane.LINK):
        key = (task.layer, task.expert or 0)
        gate = issued[key]
        if gate is not None and gate >= task.layer:
            continue
        needed = counts[key] > 0
        if not needed:
            wasted += 1
        elif task.end_ns > gate_ns[task.layer]:
            late += 1
        else:
            hits += 1
            useful += key in used
            wasted += key not in used
    return CopyWorth(
        activated=int((counts > 0).sum()),
        hits=hits,
        prefetch_useful=useful,
        prefetch_wasted=wasted,
        prefetch_late=late,
    )
