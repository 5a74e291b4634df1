"""Costs at the pace of executed steps: found again from schedules that had it."""

from dataclasses import replace
from pathlib import Path

import pytest

from prescope.formulation import Tier, evaluate
from prescope.instances import RecordedStep, Recording, synthetic_instance, write_recording
from prescope.solver import solve
from prescope.whatif import Machine, Pace, costs_at_pace, machine_as_run, pace_of
from prescope.whatif.as_run import busy_ns

TRUE = Pace(dense=1.5, gpu=0.5, cpu=2.0, copy=1.25)


def executed(seed: int, pace: Pace = TRUE) -> RecordedStep:
    """A step planned with the costs of a preset and executed on a machine of another pace."""
    instance = synthetic_instance("olmoe-1b-7b", "a100-pcie4", 4, seed)
    plan = solve(instance, method="presched").plan
    assert plan is not None
    real = evaluate(replace(instance, costs=costs_at_pace(instance.costs, pace)), plan)
    schedules = {"planned": evaluate(instance, plan), "executed": real}
    return RecordedStep(
        index=seed, instance=instance, plan=plan, schedules=schedules, tokens=4, phase="decode"
    )


def test_the_pace_is_found_again() -> None:
    steps = [executed(seed) for seed in range(3)]
    found = pace_of((step.instance, step.schedules["executed"]) for step in steps)
    for name in ("dense", "gpu", "cpu", "copy"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=1e-3), name
    assert pace_of((step.instance, step.schedules["planned"]) for step in steps) == Pace()
    with pytest.raises(ValueError, match="expected executed steps, got none"):
        pace_of([])


def test_copies_that_overlap_count_once() -> None:
    from prescope.formulation import Lane, Task, TaskKind

    def copy(start_ns: int, end_ns: int) -> Task:
        return Task(
            kind=TaskKind.COPY, lane=Lane.LINK, layer=0, expert=0, slot=0, start_ns=start_ns, end_ns=end_ns
        )

    assert busy_ns([copy(5, 9), copy(0, 4), copy(2, 6), copy(20, 21)]) == 10
    assert busy_ns([copy(0, 10), copy(1, 2), copy(3, 12)]) == 12


def test_a_machine_at_the_pace_of_a_recording(tmp_path: Path) -> None:
    steps = tuple(executed(seed) for seed in range(3))
    path = tmp_path / "run.json.gz"
    write_recording(path, Recording(steps=steps))
    costs = steps[0].instance.costs
    machine = Machine(name="m", costs=costs, tier=Tier.RAM, host_computes=True)
    found = machine_as_run(machine, path)
    assert found.costs.copy_ns(0) == pytest.approx(1.25 * costs.copy_ns(0), rel=1e-3)
    assert found.costs.dense_ns(3, 4) == pytest.approx(1.5 * costs.dense_ns(3, 4), rel=1e-3)
    write_recording(path, Recording(steps=steps[:1]))
    with pytest.raises(ValueError, match="at least 2 decode steps"):
        machine_as_run(machine, path)
    write_recording(path, Recording(steps=steps))
    short = replace(machine, costs=replace(costs, expert_bytes=costs.expert_bytes[:5]))
    with pytest.raises(ValueError, match="expected a recording of 5 layers, got 16"):
        machine_as_run(short, path)
