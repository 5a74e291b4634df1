"""A view on the terminal: lanes over time, sums as bars, tables; as wide as there is room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prescope.formulation import Lane, TaskKind, format_bytes, format_ns
from prescope.inspection.bars import bars
from prescope.inspection.counters import counters
from prescope.inspection.critical import step_path
from prescope.inspection.demand import demand_rows
from prescope.inspection.experts import expert_rows
from prescope.inspection.layers import LayerRow, layer_rows
from prescope.inspection.spent import spent
from prescope.inspection.units import readable, words
from prescope.inspection.view import StepView, View, ViewKind, ViewTable
from prescope.inspection.waterfall import waterfall
from prescope.report.gantt import STYLES, gantt
from prescope.report.origin import Origin, shares
from prescope.report.tables import pairs_table, plain_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# The bars of what the device did have the colours of the lanes.
_STYLES = {
    "dense": STYLES[Origin.DENSE],
    "resident experts": STYLES[Origin.RESIDENT],
    "prefetched experts": STYLES[Origin.PREFETCHED],
    "late experts": STYLES[Origin.LATE],
    "waiting for late prefetches": STYLES[Origin.LATE],
    "fetched experts": STYLES[Origin.ON_DEMAND],
    "waiting for copies on demand": STYLES[Origin.ON_DEMAND],
    "waiting for the cpu": STYLES[Origin.HOST],
    "waiting for predictions": STYLES[Origin.PREDICTION],
}
# Rows of a table that a screen holds.
_MOST_ROWS = 24
_SLOWEST_LAYERS = 8
# Columns from which on the layers' table has everything.
_WIDE = 100


def print_view(
    out: Console,
    view: View,
    step: StepView | None,
    *,
    width: int,
    layers: tuple[int, int] | None = None,
    layer: int | None = None,
) -> None:
    """Print a view.

    Parameters
    ----------
    out
        Where to.
    view
        What was opened.
    step
        The step to draw; ``None`` where there is none.
    width
        Columns of the drawings.
    layers
        Draw only the time of these layers, first and last.
    layer
        Draw this one, and list its experts.
    """
    facts = view.provenance if view.kind is ViewKind.TRACE else view.facts
    out.print(pairs_table((words(key), readable(key, value)) for key, value in facts.items()))
    if len(view.steps) > 1:
        _steps(out, view, step)
    if step is not None:
        _step(out, view, step, width=width, layers=(layer, layer) if layer is not None else layers)
        if layer is not None:
            _experts(out, step, layer)
    for table in view.tables:
        _table(out, table)


def _steps(out: Console, view: View, shown: StepView | None) -> None:
    names = list(dict.fromkeys(name for step in view.steps for name in step.schedules))
    table = plain_table("step", "phase", "tokens", *names, "copies", "of the link", left=2, gap=2, fold=False)
    near = _near(view.steps, shown)
    for step in near:
        happened = step.schedule
        copies = [task for task in happened.tasks if task.kind is TaskKind.COPY]
        busy = shares(happened, 0, happened.makespan_ns)[Lane.LINK]
        times = (
            format_ns(step.schedules[name].makespan_ns) if name in step.schedules else "-" for name in names
        )
        marker = "*" if step is shown else ""
        table.add_row(
            f"{step.index}{marker}",
            step.phase or "-",
            "-" if step.tokens is None else str(step.tokens),
            *times,
            str(len(copies)),
            f"{busy:.0%}",
        )
    left_out = len(view.steps) - len(near)
    table.caption = "* drawn below" + (f"; {left_out} more steps" if left_out else "")
    table.caption_justify = "left"
    out.print()
    print_table(out, table)


def _near(steps: Sequence[StepView], shown: StepView | None) -> Sequence[StepView]:
    """As many steps as a screen holds, around the one shown."""
    at = next((number for number, step in enumerate(steps) if step is shown), 0)
    first = max(0, min(at - _MOST_ROWS // 2, len(steps) - _MOST_ROWS))
    return steps[first : first + _MOST_ROWS]


def _step(out: Console, view: View, step: StepView, *, width: int, layers: tuple[int, int] | None) -> None:
    colour = out.is_terminal
    names = list(step.schedules)
    for number, (name, schedule) in enumerate(step.schedules.items()):
        if number and schedule == step.schedules[names[number - 1]]:
            out.print(f"\n{name}: the same", style="bold", markup=False)
            continue
        heading = name if len(view.steps) == 1 else f"{step.name}, {name}"
        out.print(f"\n{heading}: {format_ns(schedule.makespan_ns)}", style="bold", markup=False)
        path = [link.task for link in step_path(step, name)]
        drawing = gantt(schedule, width=width, colour=colour, layers=layers, path=path)
        out.print(drawing, crop=False, no_wrap=True, overflow="ignore", soft_wrap=True)
    if layers is None:
        name = list(step.schedules)[-1]
        _heading(out, f"where the time went ({name})")
        drawing = bars(spent(step.schedule), width=width, colour=colour, styles=_STYLES)
        out.print(drawing, crop=False, soft_wrap=True)
        falls = waterfall(step)
        if falls is not None:
            _heading(out, "above the least possible")
            parts = [part for part in falls.parts if part.ns]
            out.print(bars(parts, width=width, colour=colour, falling=True), crop=False, soft_wrap=True)
    _layers(out, step, width, layers)
    _lines(out, step)


def _layers(out: Console, step: StepView, width: int, layers: tuple[int, int] | None) -> None:
    rows = layer_rows(step)
    chosen = [row for row in rows if layers is None or layers[0] <= row.layer <= layers[1]]
    heading = "layers"
    if layers is None and len(chosen) > _MOST_ROWS:
        slowest = sorted(chosen, key=lambda row: row.start_ns - row.end_ns)[:_SLOWEST_LAYERS]
        chosen = sorted(slowest, key=lambda row: row.layer)
        heading = f"slowest layers of {len(rows)} (--layers FIRST:LAST shows others)"
    _heading(out, heading)
    print_table(out, _layer_table(chosen, width))


def _layer_table(rows: Sequence[LayerRow], width: int) -> Table:
    """One line per layer; what the drawing shows anyway is left out where there is no room for it."""
    origins = {
        "res": Origin.RESIDENT,
        "pre": Origin.PREFETCHED,
        "late": Origin.LATE,
        "demand": Origin.ON_DEMAND,
        "cpu": Origin.HOST,
        "unused": Origin.UNUSED,
    }
    wide = width >= _WIDE
    times = ("time", "wait copy", "wait cpu", *(("dense", "experts", "on the cpu") if wide else ()))
    table = plain_table("layer", *times, *origins, left=1, gap=1, fold=False)
    for row in rows:
        lengths = [row.end_ns - row.start_ns, row.wait_copy_ns, row.wait_host_ns]
        lengths += [row.dense_ns, row.gpu_ns, row.cpu_ns] if wide else []
        counts = (str(row.counts.get(origin, 0) or "-") for origin in origins.values())
        table.add_row(str(row.layer), *(format_ns(ns) if ns else "-" for ns in lengths), *counts)
    return table


def _experts(out: Console, step: StepView, layer: int) -> None:
    table = plain_table(
        "expert", "tokens", "weights", "said", "copied", "before the gate", "computed", "path", left=1, gap=2
    )
    for row in expert_rows(step, layer):
        computed = (
            "-"
            if row.compute is None
            else f"{format_ns(row.compute.start_ns)} +{format_ns(row.compute.duration_ns)}"
        )
        table.add_row(
            str(row.expert),
            "-" if row.tokens is None else str(row.tokens),
            row.origin.value,
            "-" if row.probability is None else f"{row.probability:.0%}",
            "-" if row.copy is None else format_ns(row.copy.start_ns),
            "-" if row.landed_ns is None else format_ns(row.landed_ns),
            computed,
            "*" if row.critical else "",
        )
    _heading(out, f"experts of layer {layer}")
    print_table(out, table)


def _lines(out: Console, step: StepView) -> None:
    for counter in counters(step):
        most = max(counter.values, default=0)
        text = format_bytes(most) if counter.unit == "bytes" else str(most)
        of = f" of {step.instance.slots}" if counter.unit == "slots" and step.instance is not None else ""
        out.print(f"most {counter.name}: {text}{of}", markup=False)
    rows = demand_rows(step)
    if rows:
        recalls = [row.recall for row in rows if row.recall is not None]
        brier = sum(row.brier for row in rows) / len(rows)
        recall = (
            f"{sum(recalls) / len(recalls):.1%} of the activated experts among the likeliest"
            if recalls
            else ""
        )
        out.print(f"demand said one layer ahead: {recall}, Brier score {brier:.4f}", markup=False)


def _table(out: Console, table: ViewTable) -> None:
    _heading(out, table.title)
    texts = {
        column
        for number, column in enumerate(table.columns)
        if any(isinstance(r[number], str) for r in table.rows)
    }
    left = 0
    while left < len(table.columns) and table.columns[left] in texts:
        left += 1
    shown = plain_table(*(words(column) for column in table.columns), left=max(left, 1), gap=2, fold=False)
    rows = table.rows if len(table.rows) <= 4 * _MOST_ROWS else table.rows[: 4 * _MOST_ROWS]
    for row in rows:
        shown.add_row(*(readable(name, cell) for name, cell in zip(table.columns, row, strict=True)))
    if len(rows) < len(table.rows):
        shown.caption = f"{len(table.rows) - len(rows)} more rows (--json has all)"
        shown.caption_justify = "left"
    print_table(out, shown)


def print_table(out: Console, table: Table) -> None:
    """A line for every row, however narrow the terminal."""
    from rich.measure import Measurement

    table.width = Measurement.get(out, out.options.update(max_width=10_000), table).maximum
    out.print(table, crop=False)


def _heading(out: Console, text: str) -> None:
    out.print(f"\n{text}", style="bold", markup=False)
