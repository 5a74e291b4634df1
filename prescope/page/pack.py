"""A page's document as the JSON object that its script reads.

Small things are plain JSON. Tasks, demands and states are columns of integers (`prescope.page.codec`), one
text per step, so that the page unpacks only what is looked at.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.schedule import Lane, Schedule, TaskKind
from prescope.page.codec import Int64, pack_columns
from prescope.page.document import (
    Cell,
    ChartPanel,
    HeatPanel,
    PageDocument,
    PageStep,
    Panel,
    TablePanel,
    Timeline,
)
from prescope.page.task_columns import LANES, schedule_columns

FORMAT = "prescope-page/1"
PROBABILITY_SCALE = 255  # probabilities are drawn, not computed with: one byte each
TOKENS_SCALE = 16  # expected tokens in 16ths

_IDLE, _RESIDENT, _FIRST_ORIGIN = 0, 1, 2


def packed(document: PageDocument) -> dict[str, Any]:
    """The object for JSON, all steps with their tasks."""
    timeline = document.timeline
    return {
        "format": FORMAT,
        "title": document.title,
        "kind": document.kind,
        "facts": document.facts,
        "provenance": document.provenance,
        "notes": document.notes,
        "timeline": None if timeline is None else _timeline(timeline),
        "panels": [_panel(panel) for panel in document.panels],
    }


def shorten(data: dict[str, Any], over_bytes: int) -> int:
    """Take tasks, then demands out of a packed object until it is shorter by ``over_bytes``, if it can be.

    Those steps keep their totals and maps. The one shown first, the run's first, the slowest and the last
    keep everything longest, then those evenly between.

    Returns
    -------
    int
        How many bytes were saved.
    """
    if data["timeline"] is None:
        return 0
    steps = data["timeline"]["steps"]
    times_ns = [step["schedules"][-1]["makespan_ns"] for step in steps]
    order = _by_importance(times_ns, data["timeline"]["start"])
    saved = 0
    for part in ("tasks", "demand"):
        for at in reversed(order):
            if saved >= over_bytes:
                return saved
            saved += len(steps[at][part]) + len('""') - len("null")
            steps[at][part] = None
    return saved


def step_states(step: PageStep, shape: tuple[int, int]) -> npt.NDArray[np.int64]:
    """What became of every expert in a step: 0 nothing, 1 resident and idle, else 2 + its origin.

    Taken from the last schedule, which is nearest to what happened.
    """
    states = np.zeros(shape, dtype=np.int64)
    if step.residents is not None:
        states[step.residents] = _RESIDENT
    drawn = step.schedules[-1]
    # Copies first: a computation says more about its expert than the copy that served it.
    for wanted in (TaskKind.COPY, TaskKind.COMPUTE):
        for task, origin in zip(drawn.schedule.tasks, drawn.origins, strict=True):
            if task.kind is wanted and task.expert is not None:
                states[task.layer, task.expert] = _FIRST_ORIGIN + origin
    return states


def _timeline(timeline: Timeline) -> dict[str, Any]:
    used = {origin for step in timeline.steps for drawn in step.schedules for origin in drawn.origins}
    shape = (timeline.layers, timeline.experts)
    return {
        "layers": timeline.layers,
        "experts": timeline.experts,
        "slots": timeline.slots,
        "expert_bytes": timeline.expert_bytes,
        "start": timeline.start,
        "lanes": timeline.lanes,
        "kinds": [kind.value for kind in TaskKind],
        "origins": [
            {"name": origin.name, "style": origin.style, "used": at in used}
            for at, origin in enumerate(timeline.origins)
        ],
        "clocks": dict(timeline.clocks),
        "reasons": timeline.reasons,
        "abouts": dict(timeline.abouts),
        "probability_scale": PROBABILITY_SCALE,
        "tokens_scale": TOKENS_SCALE,
        "steps": [_step(step) for step in timeline.steps],
        "states": pack_columns(_differences([step_states(step, shape).ravel() for step in timeline.steps])),
    }


def _step(step: PageStep) -> dict[str, Any]:
    return {
        "label": step.label,
        "number": step.number,
        "tokens": step.tokens,
        "facts": step.facts,
        "gap": step.gap,
        "spent": step.spent,
        "schedules": [
            {
                "name": drawn.name,
                "makespan_ns": drawn.schedule.makespan_ns,
                "busy_ns": [_busy_ns(drawn.schedule, lane) for lane in LANES],
                "tasks": len(drawn.schedule.tasks),
            }
            for drawn in step.schedules
        ],
        "counted": step.counts is not None,
        "demand": pack_columns(_demand_columns(step)),
        "tasks": pack_columns(_task_columns(step)),
    }


def _busy_ns(schedule: Schedule, lane: Lane) -> int:
    """Time within the step during which a lane has work; tasks that overlap count once."""
    total_ns = end_ns = 0
    for task in schedule.lane(lane):
        start_ns = max(task.start_ns, end_ns)
        stop_ns = min(task.end_ns, schedule.makespan_ns)
        total_ns += max(stop_ns - start_ns, 0)
        end_ns = max(end_ns, stop_ns)
    return total_ns


def _task_columns(step: PageStep) -> list[Int64]:
    columns = [schedule_columns(drawn) for drawn in step.schedules]
    # The same column of all schedules side by side: deflate sees the repetition.
    return [column for group in zip(*columns, strict=True) for column in group]


def _demand_columns(step: PageStep) -> list[Int64]:
    empty = np.zeros(0, dtype=np.int64)
    counts = empty if step.counts is None else step.counts.ravel()
    return [
        counts,
        empty if step.probability is None else _scaled(step.probability, PROBABILITY_SCALE),
        empty if step.expected_tokens is None else _scaled(step.expected_tokens, TOKENS_SCALE),
    ]


def _scaled(values: npt.NDArray[np.float64], scale: int) -> Int64:
    """Rounded to parts of one; -1 where nothing was said."""
    return np.where(np.isnan(values), -1, np.rint(np.nan_to_num(values) * scale)).astype(np.int64).ravel()


def _differences(columns: list[Int64]) -> list[Int64]:
    """Each column less the one before: what stays the same becomes zero."""
    return [column - (columns[at - 1] if at else 0) for at, column in enumerate(columns)]


def _by_importance(times_ns: list[int], start: int) -> list[int]:
    """Positions of steps: shown, first, slowest, last, then ever more of those evenly between."""
    last = len(times_ns) - 1
    order = [start, 0, times_ns.index(max(times_ns)), last]
    stride = 2 ** last.bit_length()
    while stride >= 1:
        order += range(0, last + 1, stride)
        stride //= 2
    return list(dict.fromkeys(order))


def _panel(panel: Panel) -> dict[str, Any]:
    if isinstance(panel, TablePanel):
        return {
            "type": "table",
            "title": panel.title,
            "note": panel.note,
            "columns": panel.columns,
            "rows": [[_finite(cell) for cell in row] for row in panel.rows],
        }
    if isinstance(panel, ChartPanel):
        return {
            "type": "chart",
            "title": panel.title,
            "note": panel.note,
            "kind": panel.kind,
            "x": panel.x,
            "series": [
                {"name": name, "values": [_finite(value) for value in values]}
                for name, values in panel.series
            ],
            "x_label": panel.x_label,
            "y_label": panel.y_label,
            "mark": panel.mark,
        }
    return _heat(panel)


def _finite(cell: Cell) -> Cell:
    """JSON has no NaN and no infinity: the page shows them as unknown."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _heat(panel: HeatPanel) -> dict[str, Any]:
    top = float(panel.values.max(initial=0))
    whole = bool(np.equal(panel.values, np.rint(panel.values)).all())
    scale = 1.0 if whole else 1000 / top
    return {
        "type": "heat",
        "title": panel.title,
        "note": panel.note,
        "shape": panel.values.shape,
        "rows": panel.rows,
        "columns": panel.columns,
        "unit": panel.unit,
        "scale": scale,
        "values": pack_columns([np.rint(panel.values * scale).astype(np.int64).ravel()]),
    }
