"""What moved between two plans or runs, and what it gained."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_sweeps import rows, sweep
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from json_contract import DOCUMENTED
from json_contract_compare import Compare, CompareBench
from tiny_instances import Picker, make_instance, make_plan

from prescope.cli import main
from prescope.formulation import InfeasiblePlanError, Instance, Plan, evaluate
from prescope.inspection import StepView, View, ViewKind
from prescope.inspection.bench_difference import bench_difference
from prescope.inspection.difference import difference
from prescope.instances import Provenance, write_instance, write_plan
from prescope.instances.instance_file import InstanceFile

Answer = Callable[..., Any]


def seen(instance: Instance, *plans: Plan, path: str = "x.json") -> View:
    """A view of the same instance under one plan a step."""
    steps = tuple(
        StepView(
            index=number,
            name=f"step {number}",
            schedules={"planned": evaluate(instance, plan)},
            instance=instance,
            plan=plan,
        )
        for number, plan in enumerate(plans)
    )
    return View(kind=ViewKind.RECORDING, path=path, title="", facts={}, steps=steps)


def test_a_dropped_copy(waste: tuple[Instance, Plan, Plan]) -> None:
    instance, clean, wasteful = waste
    found = difference(seen(instance, wasteful), seen(instance, clean))
    (step,) = found.steps
    assert (step.copies_added, step.copies_dropped) == ((), ((0, 2),))
    assert (step.copies_earlier, step.copies_later) == (2, 0)
    assert found.after_ns < found.before_ns and found.ratio == found.after_ns / found.before_ns
    assert sum(part.after_ns - part.before_ns for part in found.parts) == found.after_ns - found.before_ns
    assert sum(one.after_ns - one.before_ns for one in found.layers) == found.after_ns - found.before_ns
    assert found.notices == ()


@settings(max_examples=40)
@given(st.integers(0, 10**9))
def test_everything_adds_up_and_nothing_moves_against_itself(seed: int) -> None:
    import random

    pick = Picker(random.Random(seed).randint)
    instance = make_instance(pick)
    try:
        plans = [make_plan(pick, instance), make_plan(pick, instance)]
        first, second = (seen(instance, plan) for plan in plans)
    except InfeasiblePlanError:
        assume(False)
        raise
    found = difference(first, second)
    gain_ns = found.after_ns - found.before_ns
    assert sum(part.after_ns - part.before_ns for part in found.parts) == gain_ns
    assert sum(one.after_ns - one.before_ns for one in found.layers) == gain_ns
    (step,) = found.steps
    assert (
        len(step.moved) == sum(number for _, _, number in found.moves) == sum(x.moved for x in found.layers)
    )
    copied, copies = ({(c.layer, c.expert) for c in plan.transfers} for plan in plans)
    assert set(step.copies_added) == copies - copied and set(step.copies_dropped) == copied - copies
    # Backwards everything is the other way round.
    back = difference(second, first)
    assert back.steps[0].copies_added == step.copies_dropped
    assert sorted((b, a, n) for a, b, n in found.moves) == sorted(back.moves)
    same = difference(first, first)
    assert same.steps[0].moved == () and same.before_ns == same.after_ns
    assert (same.steps[0].copies_earlier, same.steps[0].copies_later) == (0, 0)


def test_other_work_is_refused_and_other_settings_are_told(waste: tuple[Instance, Plan, Plan]) -> None:
    instance, clean, _ = waste
    counts = instance.demand.counts.copy()
    counts[0, 1] = 1
    other = replace(instance, demand=replace(instance.demand, counts=counts))
    plan = replace(clean, layers=(replace(clean.layers[0], cpu=(1,)), clean.layers[1]))
    with pytest.raises(ValueError, match=r"other tokens of the experts .* --anyway"):
        difference(seen(instance, clean), seen(other, plan))
    assert "other tokens" in difference(seen(instance, clean), seen(other, plan), anyway=True).notices[0]
    larger = replace(instance, slots=5, residents=((1,), ()))
    assert difference(seen(instance, clean), seen(larger, clean)).notices == (
        "slots: 2 against 5",
        "residents: 0 against 1",
    )


def test_steps_of_the_same_number_are_compared(waste: tuple[Instance, Plan, Plan]) -> None:
    instance, clean, wasteful = waste
    found = difference(seen(instance, clean, clean, wasteful), seen(instance, clean, wasteful))
    assert [step.index for step in found.steps] == [0, 1]
    assert found.notices == ("1 steps that only x.json has are left out",)
    shifted = seen(instance, clean, clean)
    late = replace(shifted, steps=tuple(replace(step, index=step.index + 7) for step in shifted.steps))
    with pytest.raises(ValueError, match="got 0 to 1 in x.json and 7 to 8"):
        difference(shifted, late)


def test_schedules_by_name(waste: tuple[Instance, Plan, Plan]) -> None:
    instance, clean, wasteful = waste
    one, other = seen(instance, clean), seen(instance, clean)
    slow = evaluate(instance, wasteful)
    executed = replace(other.steps[0], schedules={"planned": slow, "executed": slow})
    ran = replace(other, steps=(executed,))
    # Only the planned ones are in both.
    assert (difference(one, ran).before, difference(one, ran).after) == ("planned", "planned")
    assert difference(ran, ran).after == "executed"
    with pytest.raises(ValueError, match="expected --schedule among planned, got 'executed'"):
        difference(one, ran, schedule="executed")
    alone = replace(other, steps=(replace(executed, schedules={"executed": slow}),))
    assert "planned times against executed times" in difference(one, alone).notices


@pytest.fixture
def files(waste: tuple[Instance, Plan, Plan], tmp_path: Path) -> tuple[Path, Path, Path]:
    instance, clean, wasteful = waste
    places = tmp_path / "instance.json", tmp_path / "clean.json", tmp_path / "wasteful.json"
    provenance = Provenance(source="test", created_by="test")
    write_instance(places[0], InstanceFile(instance=instance, provenance=provenance))
    write_plan(places[1], clean, instance)
    write_plan(places[2], wasteful, instance)
    return places


def test_the_command(files: tuple[Path, Path, Path], answer: Answer, capsys: Any) -> None:
    instance, clean, wasteful = map(str, files)
    assert DOCUMENTED["compare"] is Compare
    found = answer(Compare, "compare", clean, wasteful, "--instance", instance)
    assert found.after_ns > found.before_ns and not found.slower
    slow = ("compare", clean, wasteful, "--instance", instance, "--fail-if-slower")
    assert answer(Compare, *slow, "1%", code=1).slower
    assert not answer(Compare, *slow, "1000%").slower
    assert main([*slow, "0.01"]) == 1
    out = capsys.readouterr().out
    assert "slower by more than 1.000%" in out and "copies: 1 added" in out
    assert main(["compare", clean, clean, "--instance", instance, "--fail-if-slower", "0"]) == 0
    assert "experts: none moved" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["CLEAN", "CLEAN", "--fail-if-slower", "much"], "such as 2% or 0.02"),
        (["CLEAN", "CLEAN", "--fail-if-slower", "-1%"], "such as 2% or 0.02"),
        (["INSTANCE", "CLEAN"], "expected two files with steps, got instance"),
        (["CLEAN", "nowhere.json"], "expected a file, got none"),
        (["CLEAN", "FOLDER"], "expected the folder of a `prescope bench` run"),
        (["CLEAN", "CLEAN", "--schedule", "measured"], "expected --schedule among planned"),
    ],
)
def test_what_cannot_be_compared_is_said(
    files: tuple[Path, Path, Path], capsys: Any, tmp_path: Path, arguments: list[str], message: str
) -> None:
    places = {"INSTANCE": str(files[0]), "CLEAN": str(files[1]), "FOLDER": str(tmp_path)}
    given_ = [places.get(argument, argument) for argument in arguments]
    assert main(["compare", *given_, "--instance", str(files[0])]) == 2
    assert message in capsys.readouterr().err


def test_benchmarks_run_by_run(answer: Answer, tmp_path: Path) -> None:
    first = sweep(tmp_path / "first", rows("dp", 100, 200, None, 50, 60))
    second = sweep(tmp_path / "second", rows("dp", 100, 400, 10, None, None))
    same = answer(CompareBench, "compare", first, first)
    assert same.ratio == 1 and same.groups[0].shorter == same.groups[0].longer == 0
    worse = answer(CompareBench, "compare", first, second, "--fail-if-slower", "2%", code=1)
    (group,) = worse.groups
    assert (group.runs, group.shorter, group.longer, group.lost, group.gained) == (2, 0, 1, 2, 1)
    assert worse.slower and worse.ratio == pytest.approx(2**0.5)
    assert (group.worst, group.worst_instance) == (2.0, "instance-1")
    better = sweep(tmp_path / "better", rows("dp", 100, 300, 10, 50, 60))
    assert not answer(CompareBench, "compare", second, better / "runs.csv", "--fail-if-slower", "0").slower


def test_a_plan_that_is_lost_is_slower_than_any(answer: Answer, tmp_path: Path) -> None:
    first = sweep(tmp_path / "first", rows("dp", 100, 200))
    second = sweep(tmp_path / "second", rows("dp", 100, None))
    third = sweep(tmp_path / "third", rows("dp", None, None))
    found = answer(CompareBench, "compare", first, second, "--fail-if-slower", "2%", code=1)
    assert found.slower and found.ratio == 1
    assert "1 runs of which only" in found.notices[0]
    assert answer(CompareBench, "compare", first, third, "--fail-if-slower", "2%", code=1).ratio is None
    assert not answer(CompareBench, "compare", second, first, "--fail-if-slower", "0").slower


def test_the_worst_run_of_several_seeds_is_named(tmp_path: Path) -> None:
    before = [replace(row, seed=seed) for seed in (0, 1) for row in rows("dp", 100, 100)]
    times = iter((300, 100, 100, 200))
    after = [replace(row, makespan_ns=next(times)) for row in before]
    folders = sweep(tmp_path / "before", before), sweep(tmp_path / "after", after)
    (group,) = bench_difference(*folders).groups
    assert (group.worst, group.worst_instance, group.runs) == (3.0, "instance-0", 4)


def test_time_where_there_was_none_is_slower(waste: tuple[Instance, Plan, Plan]) -> None:
    instance, clean, _ = waste
    step = seen(instance, clean).steps[0]
    nothing = replace(step.schedule, tasks=(), layer_end_ns=(0, 0), makespan_ns=0)
    idle = replace(seen(instance, clean), steps=(replace(step, schedules={"planned": nothing}),))
    found = difference(idle, seen(instance, clean))
    assert found.ratio is None and found.slower(1.0) and not difference(idle, idle).slower(0.0)


def test_two_methods_and_runs_that_only_one_has(answer: Answer, tmp_path: Path, capsys: Any) -> None:
    first = sweep(tmp_path / "first", rows("dp", 100, 200))
    second = sweep(tmp_path / "second", rows("fiddler", 110))
    found = answer(CompareBench, "compare", first, second)
    assert (found.groups[0].before, found.groups[0].after) == ("dp", "fiddler")
    assert "1 runs that only" in found.notices[0]
    both = sweep(tmp_path / "both", rows("hybrimoe", 1) + rows("klotski", 1))
    assert main(["compare", str(first), str(both)]) == 2
    assert "got none in common: dp in" in capsys.readouterr().err
    other = sweep(tmp_path / "other", [replace(row, instance_sha256="f" * 64) for row in rows("dp", 100)])
    assert main(["compare", str(first), str(other)]) == 2
    assert "another content" in capsys.readouterr().err
