"""What changes step by step over a schedule: slots used, bytes in flight, how busy the lanes are."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from prescope.formulation import Lane, Schedule, TaskKind
from prescope.formulation.demand import FloatArray
from prescope.inspection.view import StepView, named_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A step function.

    Parameters
    ----------
    name, unit
        What it counts, and in which unit: ``"slots"``, ``"bytes"`` or ``"copies"``.
    times_ns, values
        From each time on it has the value, up to the next; before the first it is 0. Times ascend and
        neighbouring values differ.
    """

    name: str
    unit: str
    times_ns: tuple[int, ...]
    values: tuple[int, ...]


def counters(step: StepView, schedule: str | None = None) -> tuple[Counter, ...]:
    """Slots used and bytes in flight of one schedule of a step, by default of what happened.

    A slot is used from the start of its copy until its expert has been computed, or, when nobody uses it,
    until the copy has landed and its layer's gate has spoken. Bytes are in flight from the gate at which the
    copy was issued, where the plan says at which, else from its start, until it has landed; without an
    instance, which knows sizes, they are counted as copies.
    """
    drawn = named_schedule(step, schedule)
    return (_slots(drawn), _flight(step, drawn))


def utilisation(schedule: Schedule, buckets: int) -> dict[Lane, FloatArray]:
    """How busy each lane is, 0 to 1, in equal pieces of the makespan.

    Parameters
    ----------
    schedule
        What happened, or was planned.
    buckets
        Number of pieces, at least 1.

    Returns
    -------
    dict
        Per lane float64 ``[buckets]``. Lanes of several workers count as busy when one of them is.
    """
    if buckets < 1:
        raise ValueError(f"expected buckets >= 1, got {buckets}")
    borders = np.linspace(0.0, max(schedule.makespan_ns, 1), buckets + 1)
    found = {}
    for lane in Lane:
        busy = np.zeros(buckets + 1)
        until = 0
        for task in schedule.lane(lane):
            start, end = max(task.start_ns, until), max(task.end_ns, until)
            until = max(until, end)
            busy += np.clip(borders - start, 0, end - start)
        found[lane] = np.clip(np.diff(busy) / np.diff(borders), 0.0, 1.0)
    return found


def _slots(schedule: Schedule) -> Counter:
    gates = {task.layer: task.end_ns for task in schedule.tasks if task.kind is TaskKind.DENSE}
    freed = {
        (task.layer, task.expert): task.end_ns
        for task in schedule.tasks
        if task.kind is TaskKind.COMPUTE and task.slot is not None
    }
    spans = []
    for task in schedule.lane(Lane.LINK):
        unused_ns = max(task.end_ns, gates.get(task.layer, task.end_ns))
        spans.append((task.start_ns, max(freed.get((task.layer, task.expert), unused_ns), task.start_ns), 1))
    return _counter("slots used", "slots", spans)


def _flight(step: StepView, schedule: Schedule) -> Counter:
    gates = {task.layer: task.end_ns for task in schedule.tasks if task.kind is TaskKind.DENSE}
    gates[-1] = 0
    issued = {}
    for copy in () if step.plan is None else step.plan.transfers:
        if copy.gate in gates:
            issued[copy.layer, copy.expert] = gates[copy.gate]
    spans = []
    for task in schedule.lane(Lane.LINK):
        size = 1 if step.instance is None else step.instance.costs.expert_bytes[task.layer]
        start_ns = min(issued.get((task.layer, task.expert or 0), task.start_ns), task.start_ns)
        spans.append((start_ns, task.end_ns, size))
    if step.instance is None:
        return _counter("copies in flight", "copies", spans)
    return _counter("bytes in flight", "bytes", spans)


def _counter(name: str, unit: str, spans: list[tuple[int, int, int]]) -> Counter:
    changes: dict[int, int] = defaultdict(int)
    for start_ns, end_ns, amount in spans:
        changes[start_ns] += amount
        changes[end_ns] -= amount
    times, values, value = [], [], 0
    for time_ns in sorted(changes):
        if changes[time_ns]:
            value += changes[time_ns]
            times.append(time_ns)
            values.append(value)
    return Counter(name=name, unit=unit, times_ns=tuple(times), values=tuple(values))
