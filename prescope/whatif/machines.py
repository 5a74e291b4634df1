"""The machine that a trace is replayed on: measured costs, or a preset."""

from __future__ import annotations

import os
from dataclasses import replace

from prescope.formulation import preset
from prescope.formulation.presets import model_names
from prescope.instances import RoutingTrace, read_costs, read_recording
from prescope.whatif.as_run import costs_at_pace, pace_of
from prescope.whatif.point import Machine

_MACHINE = "a100-pcie4"
_LIKE = "qwen3-30b-a3b"


def machine_as_run(machine: Machine, recording: str | os.PathLike[str]) -> Machine:
    """The machine at the pace of a recording's decode steps, `prescope.whatif.pace_of`.

    Parameters
    ----------
    machine
        With the costs of the recorded run.
    recording
        A file of ``prescope generate --recording`` or ``prescope run --recording``.

    Raises
    ------
    ValueError
        When the recording has no executed decode steps, or of another number of layers.
    """
    steps = []
    for step in read_recording(os.fspath(recording)).steps:
        schedule = step.schedules.get("measured") or step.schedules.get("executed")
        if schedule is not None and step.phase == "decode":
            steps.append((step.instance, schedule))
    # The first one warms up.
    steps = steps[1:]
    if not steps:
        raise ValueError(
            "expected a recording with at least 2 decode steps that were really executed, "
            f"got fewer in {recording}"
        )
    if steps[0][0].layers != machine.costs.layers:
        raise ValueError(
            f"expected a recording of {machine.costs.layers} layers, got {steps[0][0].layers} in {recording}"
        )
    return replace(machine, costs=costs_at_pace(machine.costs, pace_of(steps)))


def machine_of(
    trace: RoutingTrace, *, named: str | None = None, costs: str | os.PathLike[str] | None = None
) -> Machine:
    """The machine for a trace.

    Parameters
    ----------
    trace
        Recorded routing.
    named
        A preset ``"model@machine"``; by default the recorded model, where its shape is published, on
        ``a100-pcie4``, or a published one that is made for the trace's number of layers.
    costs
        A file of ``prescope profile`` instead.

    Raises
    ------
    ValueError
        When both are given, either is unknown, or the costs have another number of layers.
    """
    if costs is not None:
        if named is not None:
            raise ValueError(f"expected either --preset or --costs, got {named!r} and {costs}")
        file = read_costs(os.fspath(costs))
        if file.costs.layers != trace.layers:
            raise ValueError(
                f"expected costs of {trace.layers} layers as in the trace, got {file.costs.layers} in {costs}"
            )
        return Machine(name=file.name, costs=file.costs, tier=file.tier, host_computes=file.host_computes)
    if named is None:
        model = trace.meta.model.lower()
        known = next((one for one in model_names() if one in model), _LIKE)
        named = f"{known}@{_MACHINE}"
    found = preset(named, layers=trace.layers)
    return Machine(name=found.name, costs=found.costs, tier=found.tier, host_computes=found.host_computes)
