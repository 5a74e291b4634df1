"""A recording as a view: a run, step by step."""

from __future__ import annotations

from pathlib import Path

from prescope.inspection.view import View, ViewKind, recorded_view
from prescope.instances import read_recording


def recording_view(path: Path) -> View:
    """View of a recording; raises `InstanceFileError` like `read_recording`."""
    recording = read_recording(path)
    steps = tuple(recorded_view(step) for step in recording.steps)
    first = recording.steps[0].instance
    facts = recording.facts
    title = ", ".join(facts[key] for key in ("model", "policy", "predictor") if key in facts)
    return View(
        kind=ViewKind.RECORDING,
        path=str(path),
        title=title or first.name,
        facts={
            "steps": len(steps),
            "tokens": sum(step.tokens or 0 for step in steps),
            "layers": first.layers,
            "experts": first.experts,
            "slots": first.slots,
            "lookahead": first.lookahead,
            **{
                f"{name}_ns": sum(step.schedules[name].makespan_ns for step in steps)
                for name in steps[0].schedules
                if all(name in step.schedules for step in steps)
            },
        },
        provenance=facts,
        steps=steps,
        instance=None,
    )
