"""A schedule as columns of small integers, and back."""

from __future__ import annotations

import numpy as np

from prescope.formulation.schedule import Lane, Schedule, Task, TaskKind
from prescope.page.codec import Int64
from prescope.page.document import DrawnSchedule

LANES = (Lane.LINK, Lane.GPU, Lane.CPU)
_KINDS = tuple(TaskKind)
COLUMNS = ("layer_end", "lane", "kind", "layer", "expert", "slot", "gap", "duration", "origin", "reason")


def schedule_columns(drawn: DrawnSchedule) -> list[Int64]:
    """The columns named in `COLUMNS`.

    Tasks stand lane by lane in order of time. ``layer_end`` holds differences from layer to layer and
    ``layer`` from task to task; ``gap`` is a task's start after the end of the one before in its lane;
    ``expert`` and ``slot`` are -1 for none.
    """
    tasks = drawn.schedule.tasks
    order = sorted(range(len(tasks)), key=lambda at: (LANES.index(tasks[at].lane), at))
    rows = np.array([_row(tasks[at]) for at in order], dtype=np.int64).reshape(len(order), 7)
    lane, kind, layer, expert, slot, start, end = rows.T
    before = np.concatenate(([0], end[:-1])) if len(order) else end
    # Every lane starts from zero.
    before = np.where(np.diff(lane, prepend=-1) != 0, 0, before)
    ends = np.array((0, *drawn.schedule.layer_end_ns), dtype=np.int64)
    return [
        ends[1:] - ends[:-1],
        lane,
        kind,
        np.diff(layer, prepend=0),
        expert,
        slot,
        start - before,
        end - start,
        np.array([drawn.origins[at] for at in order], dtype=np.int64),
        np.array([drawn.reasons[at] for at in order], dtype=np.int64),
    ]


def read_columns(name: str, columns: list[Int64], makespan_ns: int) -> DrawnSchedule:
    """The schedule that `schedule_columns` wrote; tasks in a schedule's order."""
    layer_end, lane, kind, layer, expert, slot, gap, duration, origin, reason = columns
    layers = np.cumsum(layer)
    rows: list[tuple[Task, int, int]] = []
    end_ns, lane_before = 0, -1
    for at in range(len(lane)):
        start_ns = int(gap[at]) + (end_ns if lane[at] == lane_before else 0)
        end_ns, lane_before = start_ns + int(duration[at]), int(lane[at])
        task = Task(
            kind=_KINDS[kind[at]],
            lane=LANES[lane[at]],
            layer=int(layers[at]),
            expert=None if expert[at] < 0 else int(expert[at]),
            slot=None if slot[at] < 0 else int(slot[at]),
            start_ns=start_ns,
            end_ns=end_ns,
        )
        rows.append((task, int(origin[at]), int(reason[at])))
    rows.sort(key=lambda row: (row[0].start_ns, row[0].end_ns, row[0].lane, row[0].layer))
    return DrawnSchedule(
        name=name,
        schedule=Schedule(
            tasks=tuple(row[0] for row in rows),
            layer_end_ns=tuple(np.cumsum(layer_end).tolist()),
            makespan_ns=makespan_ns,
        ),
        origins=[row[1] for row in rows],
        reasons=[row[2] for row in rows],
    )


def _row(task: Task) -> tuple[int, ...]:
    return (
        LANES.index(task.lane),
        _KINDS.index(task.kind),
        task.layer,
        -1 if task.expert is None else task.expert,
        -1 if task.slot is None else task.slot,
        task.start_ns,
        task.end_ns,
    )
