"""Chrome trace events of a schedule: one process, one track per lane, arrows, counters, the critical path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prescope.formulation.schedule import Lane, Schedule, Task, TaskKind
from prescope.report.origin import MarkedTask, Origin, mark

Event = dict[str, Any]
Clock = Callable[[int], float]
"""From a schedule's nanoseconds to the file's microseconds."""

NOT_TASKS = ("layer", "critical path")
"""Categories of slices that repeat what the lanes show."""

_LAYERS, _CRITICAL = 1, 2
_LANES = (Lane.LINK, Lane.GPU, Lane.CPU)
_TRACKS_PER_LANE = 10
_FLOWS_PER_PROCESS = 10**7


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterTrack:
    """A step function to draw: from each time on it has the value; as `prescope.inspection.Counter`."""

    name: str
    unit: str
    times_ns: tuple[int, ...]
    values: tuple[int, ...]


class Process:
    """One process of a file, which may take several schedules one after the other.

    Parameters
    ----------
    pid, name
        Its number and its heading.
    """

    def __init__(self, pid: int, name: str) -> None:
        self._pid, self._name = pid, name
        self._threads: dict[int, str] = {_LAYERS: "layers"}
        # What each track is busy until: tasks of one lane that overlap would not nest: they get another.
        self._until: dict[int, float] = {}
        self._flow = pid * _FLOWS_PER_PROCESS

    def draw(
        self,
        schedule: Schedule,
        clock: Clock,
        *,
        counters: Iterable[CounterTrack] = (),
        path: Collection[Task] = (),
        extra: dict[str, Any] | None = None,
    ) -> Iterator[Event]:
        """Events of a schedule.

        Parameters
        ----------
        schedule
            What to draw.
        clock
            Where on the file's time.
        counters
            Drawn under the lanes.
        path
            Its critical path, in order.
        extra
            Fields for the ``args`` of every task.
        """
        for layer, end_ns in enumerate(schedule.layer_end_ns):
            start_ns = schedule.layer_end_ns[layer - 1] if layer else 0
            yield self._slice(_LAYERS, f"layer {layer}", "layer", clock(start_ns), clock(end_ns), {})
        critical = {id(task) for task in path}
        copies: dict[tuple[int, int | None], tuple[int, float]] = {}
        for entry in mark(schedule):
            task = entry.task
            start, end = clock(task.start_ns), clock(task.end_ns)
            tid = self._track(task.lane, start, end)
            args = _args(entry, critical=id(task) in critical)
            yield self._slice(tid, task_name(task), entry.origin.value, start, end, {**args, **(extra or {})})
            key = task.layer, task.expert
            if task.kind is TaskKind.COPY:
                copies[key] = tid, start
            elif task.slot is not None and entry.origin is not Origin.UNUSED and key in copies:
                yield from self._arrow(copies[key], (tid, start))
        for task in path:
            self._threads[_CRITICAL] = "critical path"
            name = f"{task_name(task)} {task.kind.value if task.expert is not None else ''}".strip()
            start, end = clock(task.start_ns), clock(task.end_ns)
            yield self._slice(_CRITICAL, name, "critical path", start, end, {})
        for counter in counters:
            yield from self.count(counter, clock)

    def count(self, counter: CounterTrack, clock: Clock) -> Iterator[Event]:
        """Events of a counter."""
        for time_ns, value in zip(counter.times_ns, counter.values, strict=True):
            yield {
                "ph": "C",
                "name": counter.name,
                "cat": "counter",
                "pid": self._pid,
                "tid": 0,
                "ts": clock(time_ns),
                "args": {counter.unit: value},
            }

    def names(self) -> Iterator[Event]:
        """Headings of the process and of every track drawn."""
        yield self._meta(0, "process_name", {"name": self._name})
        yield self._meta(0, "process_sort_index", {"sort_index": self._pid})
        for tid, name in sorted(self._threads.items()):
            yield self._meta(tid, "thread_name", {"name": name})
            yield self._meta(tid, "thread_sort_index", {"sort_index": tid})

    def _track(self, lane: Lane, start: float, end: float) -> int:
        tid = 10 + _LANES.index(lane) * _TRACKS_PER_LANE
        while self._until.get(tid, start) > start:
            tid += 1
        self._until[tid] = end
        self._threads[tid] = lane.value
        return tid

    def _slice(
        self, tid: int, name: str, category: str, start: float, end: float, args: dict[str, Any]
    ) -> Event:
        return {
            "ph": "X",
            "name": name,
            "cat": category,
            "pid": self._pid,
            "tid": tid,
            "ts": start,
            # Rounded to whole nanoseconds, so that neighbours touch and do not overlap.
            "dur": round(end - start, 3),
            "args": args,
        }

    def _arrow(self, tail: tuple[int, float], head: tuple[int, float]) -> Iterator[Event]:
        self._flow += 1
        shared = {"name": "weights", "cat": "copy", "id": self._flow, "pid": self._pid}
        yield {**shared, "ph": "s", "tid": tail[0], "ts": tail[1]}
        # "e": the arrow ends at the slice that encloses this time, not at the next one.
        yield {**shared, "ph": "f", "bp": "e", "tid": head[0], "ts": head[1]}

    def _meta(self, tid: int, name: str, args: dict[str, Any]) -> Event:
        return {"ph": "M", "name": name, "pid": self._pid, "tid": tid, "args": args}


def task_name(task: Task) -> str:
    """Short name, such as ``L3 E7``."""
    return f"L{task.layer} {task.kind.value}" if task.expert is None else f"L{task.layer} E{task.expert}"


def _args(entry: MarkedTask, *, critical: bool) -> dict[str, Any]:
    task = entry.task
    return {
        "kind": task.kind.value,
        "lane": task.lane.value,
        "layer": task.layer,
        "expert": task.expert,
        "slot": task.slot,
        "start_ns": task.start_ns,
        "end_ns": task.end_ns,
        "origin": entry.origin.value,
        **({"critical": True} if critical else {}),
    }
