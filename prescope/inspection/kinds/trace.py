"""A Perfetto file of one step as a view."""

from __future__ import annotations

from pathlib import Path

from prescope.inspection.view import StepView, View, ViewKind
from prescope.report.perfetto import read_trace


def trace_view(path: Path) -> View:
    """View of a file of `prescope.report.write_trace`; raises ``ValueError`` like `read_trace`."""
    trace = read_trace(path)
    step = trace.notes.get("step", "0")
    index = int(step) if step.isdecimal() else 0
    names = [trace.notes[key] for key in ("model", "policy", "method") if key in trace.notes]
    return View(
        kind=ViewKind.TRACE,
        path=str(path),
        title=", ".join(names) or path.name,
        facts={"notes": ", ".join(f"{key}: {value}" for key, value in trace.notes.items())},
        provenance=trace.notes,
        steps=(
            StepView(
                index=index,
                name=f"step {index}",
                schedules=trace.schedules,
                dilation=trace.dilation,
                began_unix_ns=trace.began_unix_ns,
                notes=trace.notes,
            ),
        ),
    )
