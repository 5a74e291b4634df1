"""A view as plain objects for ``--json`` (docs/json.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from prescope.formulation import Schedule, TaskKind
from prescope.inspection.counters import counters
from prescope.inspection.critical import step_path
from prescope.inspection.demand import demand_rows
from prescope.inspection.layers import LayerRow, layer_rows
from prescope.inspection.spent import Part, spent
from prescope.inspection.view import StepView, View
from prescope.inspection.waterfall import waterfall
from prescope.report.origin import Origin, mark, shares


def view_document(view: View, step: StepView | None, layers: tuple[int, int] | None) -> dict[str, Any]:
    """Everything about a view, and one step of it in full.

    Parameters
    ----------
    view
        What was opened.
    step
        The step to show in full; ``None`` where there is none.
    layers
        Only the tasks and rows of these layers, first and last.
    """
    return {
        "kind": view.kind.value,
        "file": view.path,
        "title": view.title,
        "facts": dict(view.facts),
        "provenance": dict(view.provenance),
        "steps": [_summary(one) for one in view.steps],
        "step": None if step is None else step_document(step, layers),
        "tables": [
            {"title": table.title, "columns": list(table.columns), "rows": [list(row) for row in table.rows]}
            for table in view.tables
        ],
        "maps": [{"name": one.name, "about": one.about, "values": one.values.tolist()} for one in view.maps],
    }


def step_document(step: StepView, layers: tuple[int, int] | None = None) -> dict[str, Any]:
    """One step in full."""
    falls = waterfall(step)
    return {
        **_summary(step),
        "notes": dict(step.notes),
        "schedules": [schedule_document(step, name, layers) for name in step.schedules],
        "waterfall": None
        if falls is None
        else {
            "parts": _parts(falls.parts),
            "lower_bound_ns": falls.lower_bound_ns,
            "planned_ns": falls.planned_ns,
            "makespan_ns": falls.makespan_ns,
        },
        "demand": [asdict(row) for row in demand_rows(step) if layers is None or _within(row.layer, layers)],
    }


def schedule_document(step: StepView, name: str, layers: tuple[int, int] | None = None) -> dict[str, Any]:
    """One schedule of a step: lanes, sums, rows per layer, counters and tasks."""
    schedule = step.schedules[name]
    critical = {id(link.task) for link in step_path(step, name)}
    busy = shares(schedule, 0, schedule.makespan_ns)
    return {
        "name": name,
        "makespan_ns": schedule.makespan_ns,
        "busy": {lane.value: share for lane, share in busy.items()},
        "spent": _parts(spent(schedule)),
        "counters": [
            {"name": one.name, "unit": one.unit, "most": max(one.values, default=0)}
            for one in counters(step, name)
        ],
        "layers": [
            _layer(row) for row in layer_rows(step, name) if layers is None or _within(row.layer, layers)
        ],
        "tasks": [
            {
                "kind": entry.task.kind.value,
                "lane": entry.task.lane.value,
                "layer": entry.task.layer,
                "expert": entry.task.expert,
                "slot": entry.task.slot,
                "start_ns": entry.task.start_ns,
                "end_ns": entry.task.end_ns,
                "origin": entry.origin.value,
                "critical": id(entry.task) in critical,
            }
            for entry in mark(schedule)
            if layers is None or _within(entry.task.layer, layers)
        ],
    }


def _summary(step: StepView) -> dict[str, Any]:
    return {
        "index": step.index,
        "name": step.name,
        "phase": step.phase,
        "tokens": step.tokens,
        "times_ns": {name: schedule.makespan_ns for name, schedule in step.schedules.items()},
        "copies": _copies(step.schedule),
    }


def _copies(schedule: Schedule) -> int:
    return sum(task.kind is TaskKind.COPY for task in schedule.tasks)


def _parts(parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    return [{"name": part.name, "ns": part.ns} for part in parts]


def _layer(row: LayerRow) -> dict[str, Any]:
    origins = [origin for origin in Origin if origin not in (Origin.DENSE, Origin.PREDICTION)]
    plain = {key: value for key, value in asdict(row).items() if key not in ("counts", "tokens")}
    return {**plain, **{str(one.value).replace(" ", "_"): row.counts.get(one, 0) for one in origins}}


def _within(layer: int, layers: tuple[int, int]) -> bool:
    return layers[0] <= layer <= layers[1]
