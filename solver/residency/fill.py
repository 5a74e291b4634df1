"""Bring experts for later steps while the link has nothing else to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prescope.formulation.horizon import Horizon
from prescope.formulation.plan import Plan, Transfer
from prescope.formulation.schedule import Lane, Schedule, TaskKind

Key = tuple[int, int]


def fill(
    horizon: Horizon, plan: Plan, schedule: Schedule, wishes: Sequence[Key], *, link_ready_ns: int = 0
) -> Plan:
    """Put copies that no layer of this step uses into the idle time of the link.

    A wish is granted at the first moment, from the gate of its layer on, at which the link is idle until the
    copy has landed and a slot is free: nothing else moves, and the step takes no longer.

    Parameters
    ----------
    horizon
        Whose copies take how long, and how many slots there are.
    plan, schedule
        The step, and its times.
    wishes
        ``(layer, expert)``, the most wanted first; neither resident nor copied in the plan.
    link_ready_ns
        How long the link is busy with the step before.

    Returns
    -------
    Plan
        The same computations; copies with the slots that the schedule gave them, granted wishes between.
    """
    copies = sorted(schedule.lane(Lane.LINK), key=lambda task: (task.start_ns, task.end_ns))
    if not wishes or horizon.slots == 0:
        return plan
    gates = {task.layer: task.end_ns for task in schedule.tasks if task.kind is TaskKind.DENSE}
    busy = _busy_slots(schedule, horizon.slots, gates)
    gate_of = {(copy.layer, copy.expert): copy.gate for copy in plan.transfers}
    waiting = list(wishes)
    placed: list[Transfer] = []
    now_ns = link_ready_ns
    for task in [*copies, None]:
        until_ns = schedule.makespan_ns if task is None else task.start_ns
        while waiting:
            grant = _next(horizon, waiting, gates, busy, now_ns, until_ns)
            if grant is None:
                break
            index, start_ns, slot = grant
            layer, expert = waiting.pop(index)
            now_ns = start_ns + horizon.costs.copy_ns(layer)
            busy[slot].append((start_ns, now_ns))
            placed.append(Transfer(layer=layer, expert=expert, slot=slot, gate=layer))
        if task is not None and task.expert is not None:
            key = task.layer, task.expert
            placed.append(Transfer(layer=key[0], expert=key[1], slot=task.slot, gate=gate_of[key]))
            now_ns = max(now_ns, task.end_ns)
    return replace(plan, transfers=tuple(placed))


def _busy_slots(schedule: Schedule, slots: int, gates: dict[int, int]) -> list[list[tuple[int, int]]]:
    """When each slot holds something."""
    used = {
        (task.layer, task.expert): task.end_ns
        for task in schedule.lane(Lane.GPU)
        if task.kind is TaskKind.COMPUTE and task.slot is not None
    }
    busy: list[list[tuple[int, int]]] = [[] for _ in range(slots)]
    for task in schedule.lane(Lane.LINK):
        if task.slot is not None:
            end_ns = used.get((task.layer, task.expert), max(task.end_ns, gates[task.layer]))
            busy[task.slot].append((task.start_ns, end_ns))
    return busy


def _next(
    horizon: Horizon,
    waiting: list[Key],
    gates: dict[int, int],
    busy: list[list[tuple[int, int]]],
    now_ns: int,
    until_ns: int,
) -> tuple[int, int, int] | None:
    """The first moment of an idle time at which something can be granted: wish, start and slot."""
    moments = {now_ns, *gates.values(), *(end for slot in busy for _, end in slot)}
    for moment_ns in sorted(moment for moment in moments if now_ns <= moment < until_ns):
        for index, (layer, _) in enumerate(waiting):
            end_ns = moment_ns + horizon.costs.copy_ns(layer)
            if gates[layer] > moment_ns or end_ns > until_ns:
                continue
            for slot, times in enumerate(busy):
                if all(end <= moment_ns or start >= end_ns for start, end in times):
                    return index, moment_ns, slot
    return None
