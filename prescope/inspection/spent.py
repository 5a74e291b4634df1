"""Where the time of a step went, seen from the device: what it computed, and what it waited for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prescope.formulation.schedule import Lane, Schedule, Task, TaskKind
from prescope.report.origin import MarkedTask, Origin, mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a sum.

    Parameters
    ----------
    name, about
        What it is, in two words and in a sentence.
    ns
        Its length; only a difference of two schedules may be negative.
    """

    name: str
    ns: int
    about: str


_BUSY = {
    Origin.DENSE: ("dense", "attention, router and shared experts"),
    Origin.RESIDENT: ("resident experts", "computing experts that are pinned on the device"),
    Origin.PREFETCHED: ("prefetched experts", "computing experts whose copy had landed at their gate"),
    Origin.LATE: ("late experts", "computing experts whose copy was under way at their gate"),
    Origin.ON_DEMAND: ("fetched experts", "computing experts that were copied on demand"),
}
_LATE = ("waiting for late prefetches", "idle for a copy that was under way when its gate spoke")
_DEMAND = ("waiting for copies on demand", "idle for a copy that began at its gate or later")
_HOST = ("waiting for the cpu", "idle until the host has computed its experts of the layer")
_PREDICTION = ("waiting for predictions", "idle because the host was busy predicting")
_OTHER = ("other waiting", "idle for none of these: bookkeeping, or operations that overran")
_ORDER = (*_BUSY.values(), _LATE, _DEMAND, _HOST, _PREDICTION, _OTHER)


def spent(schedule: Schedule) -> tuple[Part, ...]:
    """Divide the makespan of a schedule into what the device did and what it waited for.

    Every moment from 0 to the makespan belongs to exactly one part, so they add up to it. Parts of length 0
    are left out.
    """
    totals = dict.fromkeys(_ORDER, 0)
    for _, kind, start_ns, end_ns in _pieces(schedule):
        totals[kind] += end_ns - start_ns
    return tuple(Part(name=name, ns=ns, about=about) for (name, about), ns in totals.items() if ns)


def waits_ns(schedule: Schedule) -> list[tuple[int, int]]:
    """Per layer, how long the device waited for copies, and for the host (predictions included)."""
    found = [[0, 0] for _ in schedule.layer_end_ns]
    for layer, kind, start_ns, end_ns in _pieces(schedule):
        if kind in (_LATE, _DEMAND):
            found[layer][0] += end_ns - start_ns
        elif kind in (_HOST, _PREDICTION):
            found[layer][1] += end_ns - start_ns
    return [(copies, host) for copies, host in found]


_Piece = tuple[int, tuple[str, str], int, int]


def _pieces(schedule: Schedule) -> Iterator[_Piece]:
    """Layer, kind, start and end of every piece of the device's time, in order and without gaps."""
    end_ns = schedule.makespan_ns
    device = [entry for entry in mark(schedule) if entry.task.lane is Lane.GPU]
    host = [task for task in schedule.tasks if task.lane is Lane.CPU]
    now_ns, layer = 0, 0
    for entry in device:
        task = entry.task
        start_ns = min(max(task.start_ns, now_ns), end_ns)
        if start_ns > now_ns:
            yield from _idle(layer, entry, host, now_ns, start_ns)
        layer = task.layer
        now_ns = max(min(task.end_ns, end_ns), start_ns)
        yield layer, _BUSY.get(entry.origin, _OTHER), start_ns, now_ns
    yield from _after(layer, host, now_ns, end_ns)


def _idle(
    layer: int, before: MarkedTask, host: Iterable[Task], start_ns: int, end_ns: int
) -> Iterator[_Piece]:
    """Pieces of an idle stretch that ends with a task."""
    if before.task.kind is TaskKind.DENSE:
        yield from _after(layer, host, start_ns, end_ns)
        return
    kind = {Origin.LATE: _LATE, Origin.ON_DEMAND: _DEMAND}.get(before.origin, _OTHER)
    yield before.task.layer, kind, start_ns, end_ns


def _after(layer: int, host: Iterable[Task], start_ns: int, end_ns: int) -> Iterator[_Piece]:
    """Pieces of an idle stretch at the end of a layer: until the host is done with it."""
    for task in host:
        if task.end_ns <= start_ns or task.start_ns >= end_ns:
            continue
        if task.start_ns > start_ns:
            yield layer, _OTHER, start_ns, task.start_ns
        start_ns = max(start_ns, task.start_ns)
        until_ns = min(task.end_ns, end_ns)
        yield layer, _PREDICTION if task.kind is TaskKind.PREDICT else _HOST, start_ns, until_ns
        start_ns = until_ns
    if start_ns < end_ns:
        yield layer, _OTHER, start_ns, end_ns
