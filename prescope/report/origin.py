"""Where the weights of every task come from: the colour of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from prescope.formulation.schedule import Lane, Schedule, Task, TaskKind


class Origin(StrEnum):
    """Why a task is where it is."""

    DENSE = "dense"
    RESIDENT = "resident"
    PREFETCHED = "prefetched"
    LATE = "late prefetch"
    ON_DEMAND = "on demand"
    HOST = "cpu"
    PREDICTION = "prediction"
    UNUSED = "unused copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedTask:
    """A task with its origin.

    Parameters
    ----------
    task
        The task.
    origin
        A copy that began before its layer's gate is prefetched, or late when it was still under way at the
        gate; one that began at the gate or later is on demand; one whose expert the device does not compute
        afterwards is unused (a wasted prefetch, or one for a later step). A computation has the origin of its
        weights.
    """

    task: Task
    origin: Origin


def mark(schedule: Schedule) -> tuple[MarkedTask, ...]:
    """Mark every task of a schedule with its origin, in the schedule's order."""
    gate_ns = {task.layer: task.end_ns for task in schedule.tasks if task.kind is TaskKind.DENSE}
    copies: dict[tuple[int, int | None], Task] = {}
    used: dict[tuple[int, int | None], int] = {}
    for task in schedule.tasks:
        key = task.layer, task.expert
        if task.kind is TaskKind.COPY:
            copies.setdefault(key, task)
        elif task.kind is TaskKind.COMPUTE and task.lane is Lane.GPU and task.slot is not None:
            used[key] = task.start_ns

    def origin(task: Task) -> Origin:
        if task.kind is TaskKind.DENSE:
            return Origin.DENSE
        if task.kind is TaskKind.PREDICT:
            return Origin.PREDICTION
        if task.lane is Lane.CPU:
            return Origin.HOST
        key = task.layer, task.expert
        if task.kind is TaskKind.COPY and used.get(key, task.start_ns) <= task.start_ns:
            return Origin.UNUSED
        if task.kind is TaskKind.COMPUTE and task.slot is None:
            return Origin.RESIDENT
        # A copy of an earlier step is not in this schedule, and was ahead of everything in it.
        if key not in copies:
            return Origin.PREFETCHED
        copy = copies[key]
        gate = gate_ns.get(task.layer, copy.start_ns)
        if copy.start_ns >= gate:
            return Origin.ON_DEMAND
        return Origin.PREFETCHED if copy.end_ns <= gate else Origin.LATE

    return tuple(MarkedTask(task=task, origin=origin(task)) for task in schedule.tasks)


def shares(schedule: Schedule, begin_ns: int, end_ns: int) -> dict[Lane, float]:
    """Share of a stretch of time during which each lane is busy, 0 to 1."""
    length_ns = max(end_ns - begin_ns, 1)
    return {lane: _busy_ns(schedule, lane, begin_ns, end_ns) / length_ns for lane in Lane}


def _busy_ns(schedule: Schedule, lane: Lane, begin_ns: int, end_ns: int) -> int:
    tasks = schedule.lane(lane)
    return sum(max(min(task.end_ns, end_ns) - max(task.start_ns, begin_ns), 0) for task in tasks)
