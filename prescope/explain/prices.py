"""What link time, a slot and a faster link are worth at one layer of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prescope.formulation import Instance, Plan, Schedule, TaskKind
from prescope.formulation.workload import layer_tables, workload
from prescope.solver.forced import replan
from prescope.solver.lead_dp import value_at
from prescope.solver.quick import quick_plan
from prescope.solver.value_function import ValueFunction

_FASTER = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices at one layer.

    Parameters
    ----------
    layer
        Which layer.
    lead_ns
        How far the link is ahead on entering it: link time spent on copies for it and later ones, less what
        it still owes to earlier ones.
    link_time
        Nanoseconds of the batch that one more nanosecond of lead is worth there: the lead DP's
        ``-V'(lead)`` over the next copy.
    free_ns
        The batch planned anew without any condition, by `prescope.solver.forced.replan`.
    faster_link_ns
        What a link a tenth faster saves of that.
    slot_ns
        What one more slot saves of that.
    lost_slot_ns
        What one slot less costs; ``None`` where there is none to lose.
    """

    layer: int
    lead_ns: int
    link_time: float
    free_ns: int
    faster_link_ns: int
    slot_ns: int
    lost_slot_ns: int | None


def prices(
    instance: Instance, plan: Plan, schedule: Schedule, layer: int, *, effort: int, seed: int = 0
) -> Prices:
    """Prices at a layer.

    Parameters
    ----------
    instance, plan, schedule
        The problem, its plan and the plan evaluated.
    layer
        Which layer.
    effort, seed
        Of planning anew, see `prescope.solver.forced.replan`.
    """
    lead_ns = lead_at(schedule, layer)
    free_ns = _planned_ns(instance, plan, effort, seed)
    link = instance.costs.link
    faster = replace(link, bytes_per_s=round(link.bytes_per_s * _FASTER))
    quicker = replace(instance, costs=replace(instance.costs, link=faster))
    fewer = None
    if instance.slots > (0 if instance.host_computes else 1):
        fewer = _planned_ns(replace(instance, slots=instance.slots - 1), plan, effort, seed) - free_ns
    return Prices(
        layer=layer,
        lead_ns=lead_ns,
        link_time=link_prices(instance, schedule, [layer])[0],
        free_ns=free_ns,
        faster_link_ns=free_ns - _planned_ns(quicker, plan, effort, seed),
        slot_ns=free_ns - _planned_ns(replace(instance, slots=instance.slots + 1), plan, effort, seed),
        lost_slot_ns=fewer,
    )


def lead_at(schedule: Schedule, layer: int) -> int:
    """Link time spent on copies for a layer and later ones when it starts, less what is still owed before."""
    start_ns = schedule.layer_end_ns[layer - 1] if layer else 0
    lead_ns = 0
    for task in schedule.tasks:
        if task.kind is TaskKind.COPY:
            done_ns = min(max(start_ns - task.start_ns, 0), task.end_ns - task.start_ns)
            if task.layer >= layer:
                lead_ns += done_ns
            else:
                lead_ns -= max(0, task.end_ns - max(start_ns, task.start_ns)) if done_ns else 0
    return lead_ns


def link_prices(instance: Instance, schedule: Schedule, layers: Sequence[int]) -> tuple[float, ...]:
    """Time of the batch per time of lead on entering each of some layers, see `Prices.link_time`."""
    if instance.slots == 0:
        return (0.0,) * len(layers)
    work = workload(instance)
    _, _, function = quick_plan(work, layer_tables(work))
    return tuple(_slope(function, layer, lead_at(schedule, layer)) for layer in layers)


def _slope(function: ValueFunction, layer: int, lead_ns: int) -> float:
    copy_ns = float(function.copy_ns[layer])
    step_ns = copy_ns / function.q_grid
    row = function.value_ns[layer]
    usable = min(float(lead_ns), float(function.caps_ns[layer]))
    gained = value_at(row, usable, step_ns) - value_at(row, usable + copy_ns, step_ns)
    return max(0.0, gained / copy_ns)


def _planned_ns(instance: Instance, plan: Plan, effort: int, seed: int) -> int:
    found = replan(instance, hint=plan, effort=effort, seed=seed)
    assert found is not None
    return found[1]
