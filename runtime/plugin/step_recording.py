"""An engine's newest steps as a recording: what `prescope inspect` looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from prescope.formulation import format_bytes
from prescope.instances import RecordedStep, Recording
from prescope.instances.limits import MAX_NOTE
from prescope.instances.recording import said_before
from prescope.runtime.plugin.report import EngineReport, StepReport
from prescope.runtime.plugin.settings import StepRecord

# What the schedule of a backend is called, and what its times are.
_HAPPENED = {
    "sim": ("simulated", "simulated: operations of the modelled length in virtual time"),
    "cpu": ("executed", "executed: real work in slow motion, times divided by the dilation (emulated)"),
    "disk": ("measured", "measured: real time on this machine"),
}


def recording_of(
    records: Sequence[StepRecord], reports: Sequence[StepReport], report: EngineReport, model: Any
) -> Recording:
    """The recording of steps in full.

    Parameters
    ----------
    records, reports
        The same steps, in order.
    report
        How the engine runs.
    model
        Its transformers model.

    Raises
    ------
    ValueError
        When there is no step yet.
    """
    if not records:
        raise ValueError("expected an engine that has run a step, got one that has run none yet")
    name, _ = happened(report.backend)
    steps = tuple(_step(record, shown, name) for record, shown in zip(records, reports, strict=True))
    return Recording(steps=steps, facts=facts_of(report, model))


def happened(backend: str) -> tuple[str, str]:
    """Name of the schedule that a backend's step is, and what its times are, in a sentence."""
    return _HAPPENED.get(backend, ("executed", f"executed: as backend {backend} tells"))


def facts_of(report: EngineReport, model: Any) -> Mapping[str, str]:
    """Where a recording comes from, in text pairs."""
    # The profile measures with parts of this package.
    from prescope.runtime.profile.machine import this_machine

    config, machine = model.config, this_machine()
    facts = {
        # Without the folder it was loaded from, which says nothing elsewhere.
        "model": Path(getattr(config, "_name_or_path", "") or config.model_type).name,
        "policy": report.policy,
        "predictor": report.predictor,
        "backend": report.backend,
        "costs": report.preset,
        "residency": report.residency,
        "expert memory": format_bytes(report.expert_memory_bytes),
        "times": happened(report.backend)[1],
        "dilation": f"{report.dilation:g}",
        "machine": f"{machine.system} {machine.architecture}, {machine.cores} cores, "
        f"{format_bytes(machine.memory_bytes)} of memory",
        "versions": f"prescope {version('prescope')}, torch {machine.torch}, "
        f"transformers {machine.transformers}, python {machine.python}",
    }
    if report.warnings:
        facts["degraded"] = _told(report.warnings)
    return facts


def _told(warnings: Sequence[str]) -> str:
    """Warnings as one text, as long as a recording takes; a long run has many."""
    text = "; ".join(warnings)
    if len(text) <= MAX_NOTE:
        return text
    end = f" ... ({len(warnings)} warnings in all)"
    return text[: MAX_NOTE - len(end)] + end


def _step(record: StepRecord, shown: StepReport, name: str) -> RecordedStep:
    trace = record.trace
    return RecordedStep(
        index=shown.step,
        # All horizons of every step would be most of the file; what was said last is kept.
        instance=replace(record.instance, predicted=None),
        plan=record.plan,
        schedules={"planned": record.planned, name: trace.schedule},
        tokens=record.tokens,
        phase=shown.phase,
        forecasts=said_before(record.instance),
        dilation=trace.dilation,
        began_unix_ns=trace.began_unix_ns,
        notes={"degraded": _told(trace.degraded)} if trace.degraded else {},
    )
