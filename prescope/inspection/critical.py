"""The chain of tasks that decides when a step is done: who waited for whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from prescope.formulation.schedule import Lane, Schedule, Task, TaskKind
from prescope.inspection.view import StepView, named_schedule


class Because(StrEnum):
    """What a task on the critical path waited for."""

    START = "start"
    LANE = "lane"
    GATE = "gate"
    COPY = "copy"
    SLOT = "slot"
    LAYER = "layer"


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalLink:
    """One task of the critical path.

    Parameters
    ----------
    task
        The task.
    because
        What it waited for last, which is the task before it on the path: the one ahead of it in its lane, its
        gate, its weights, the slot it fills, the layer before. ``START``: nothing of this step; a copy may
        then begin later than the step, when the link was still busy, or before it.
    slack_ns
        From the end of that task to the start of this one: 0 in a planned or simulated schedule.
    """

    task: Task
    because: Because
    slack_ns: int


# Of tasks that end at the same time the first of these is named.
_RANK = (Because.COPY, Because.SLOT, Because.LAYER, Because.LANE, Because.GATE)


def step_path(step: StepView, schedule: str | None = None) -> tuple[CriticalLink, ...]:
    """The critical path of one schedule of a step, by default of what happened."""
    ready_ns = 0 if step.instance is None else step.instance.link_ready_ns
    return critical_path(named_schedule(step, schedule), link_ready_ns=ready_ns)


def critical_path(schedule: Schedule, *, link_ready_ns: int = 0) -> tuple[CriticalLink, ...]:
    """The tasks that decide the makespan, first to last.

    From the last task back to whatever it needed and that ended last. Durations and slacks of the path add up
    to the time from its first task's start to its last task's end, which is the makespan of a planned
    schedule. Empty for a schedule without tasks.

    Parameters
    ----------
    schedule
        What was planned, or what happened.
    link_ready_ns
        How long the link was still busy with the step before.
    """
    tasks = [task for task in schedule.tasks if task.kind is not TaskKind.COPY]
    if not tasks:
        return ()
    needs = _Needs(schedule)
    path: list[CriticalLink] = []
    task: Task | None = max(tasks, key=lambda found: found.end_ns)
    seen: set[int] = set()
    while task is not None:
        seen.add(id(task))
        best: tuple[Because, Task] | None = None
        for because, other in needs.of(task):
            if id(other) not in seen and other.end_ns <= task.start_ns and _better(because, other, best):
                best = because, other
        first_copy = task.kind is TaskKind.COPY and not needs.is_behind(task)
        if best is None or (first_copy and best[1].end_ns < link_ready_ns <= task.start_ns):
            path.append(CriticalLink(task=task, because=Because.START, slack_ns=0))
            break
        path.append(CriticalLink(task=task, because=best[0], slack_ns=task.start_ns - best[1].end_ns))
        task = best[1]
    return tuple(reversed(path))


def _better(because: Because, other: Task, best: tuple[Because, Task] | None) -> bool:
    if best is None or other.end_ns != best[1].end_ns:
        return best is None or other.end_ns > best[1].end_ns
    return _RANK.index(because) < _RANK.index(best[0])


class _Needs:
    """What each task of a schedule could have waited for."""

    def __init__(self, schedule: Schedule) -> None:
        self._ahead: dict[int, Task] = {}
        last: dict[Lane, Task] = {}
        self._gates: dict[int, Task] = {}
        self._copies: dict[tuple[int, int | None], Task] = {}
        self._layers: dict[int, list[Task]] = defaultdict(list)
        self._slots: dict[int, list[Task]] = defaultdict(list)
        computed = [task for task in schedule.tasks if task.kind is TaskKind.COMPUTE]
        used = {(task.layer, task.expert) for task in computed if task.slot is not None}
        for task in schedule.tasks:
            if task.lane in last:
                self._ahead[id(task)] = last[task.lane]
            last[task.lane] = task
            if task.kind is TaskKind.DENSE:
                self._gates[task.layer] = task
            elif task.kind is TaskKind.COPY:
                self._copies.setdefault((task.layer, task.expert), task)
                if (task.layer, task.expert) not in used and task.slot is not None:
                    # Nobody uses it: its slot is free when it has landed and its gate has passed.
                    self._slots[task.slot].append(task)
            elif task.kind is TaskKind.COMPUTE:
                self._layers[task.layer].append(task)
                if task.slot is not None:
                    self._slots[task.slot].append(task)
            if task.kind is TaskKind.DENSE:
                self._layers[task.layer].append(task)

    def is_behind(self, task: Task) -> bool:
        """Whether another task is ahead of it in its lane."""
        return id(task) in self._ahead

    def of(self, task: Task) -> Iterator[tuple[Because, Task]]:
        ahead = self._ahead.get(id(task))
        # Lanes of several workers overlap: whoever had ended by then is looked for.
        while ahead is not None and ahead.end_ns > task.start_ns:
            ahead = self._ahead.get(id(ahead))
        if ahead is not None:
            yield Because.LANE, ahead
        if task.kind is TaskKind.DENSE:
            yield from ((Because.LAYER, other) for other in self._layers[task.layer - 1])
        elif task.kind is TaskKind.COPY:
            yield from ((Because.SLOT, other) for other in self._slots[task.slot or 0] if other is not task)
            # Issued at a gate, of its own layer or one before.
            yield from ((Because.GATE, gate) for gate in self._gates.values() if gate.layer <= task.layer)
        else:
            if task.layer in self._gates:
                yield Because.GATE, self._gates[task.layer]
            if task.slot is not None and (task.layer, task.expert) in self._copies:
                yield Because.COPY, self._copies[task.layer, task.expert]
