"""Steps for Perfetto: the format's rules, several steps in a row, and the clock of torch.profiler."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_schedule import SMALL
from tiny_instances import instances_with_plans
from trace_rules import broken_trace_rules

from prescope.formulation import InfeasiblePlanError, Instance, Plan, evaluate
from prescope.inspection import StepView, counters, critical_path, open_view
from prescope.inspection.perfetto import step_document, write_perfetto

BEGAN = 1_790_000_000_000_000_000


def view_of(instance: Instance, plan: Plan, **changes: Any) -> StepView:
    schedule = evaluate(instance, plan)
    values: dict[str, Any] = {
        "name": "step",
        "schedules": {"planned": schedule, "executed": schedule},
        "instance": instance,
        "plan": plan,
    }
    return StepView(**{**values, **changes})


@settings(max_examples=40)
@given(instances_with_plans())
def test_any_step_keeps_the_rules(drawn: tuple[Instance, Plan]) -> None:
    try:
        step = view_of(*drawn)
    except InfeasiblePlanError:
        assume(False)
        raise
    text = json.dumps(step_document(step))
    assert broken_trace_rules(text) == []
    events = json.loads(text)["traceEvents"]
    marked = [event for event in events if event["ph"] == "X" and event["args"].get("critical")]
    path = critical_path(step.schedule, link_ready_ns=drawn[0].link_ready_ns)
    assert len(marked) == 2 * len(path) == sum(event.get("cat") == "critical path" for event in events)
    counted = [event for event in events if event["ph"] == "C"]
    assert len(counted) == 2 * sum(len(counter.values) for counter in counters(step))


@settings(max_examples=25)
@given(st.lists(instances_with_plans(), min_size=2, max_size=3), st.booleans(), st.integers(1, 40))
def test_steps_in_a_row_keep_the_rules(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Any], real: bool, dilation: int
) -> None:
    try:
        steps = [
            view_of(
                *pair,
                index=number,
                dilation=dilation / 2,
                began_unix_ns=BEGAN + 10**6 * number if real else None,
            )
            for number, pair in enumerate(drawn)
        ]
    except InfeasiblePlanError:
        assume(False)
        raise
    path = tmp_path_factory.mktemp("steps") / "trace.json"
    write_perfetto(path, steps, {"policy": "dp"})
    text = path.read_text()
    assert broken_trace_rules(text) == []
    document = json.loads(text)
    layers = [event for event in document["traceEvents"] if event.get("cat") == "layer" and event["pid"] == 1]
    first = [event["ts"] for event in layers if event["name"] == "layer 0"]
    assert len(first) == len(steps) and first == sorted(first)
    if real:
        assert [round(ts - first[0]) for ts in first] == [1000 * number for number in range(len(steps))]
    with pytest.raises(ValueError, match="one of several"):
        open_view(path)


def test_counters_of_steps_that_overlap_are_added(tmp_path: Path) -> None:
    """The first copy of the second step begins while the last one of the first is under way."""
    early = replace(SMALL, tasks=(replace(SMALL.tasks[0], start_ns=-30), *SMALL.tasks[1:]))
    steps = [
        StepView(name="s", index=number, schedules={"measured": drawn}, began_unix_ns=BEGAN + 120 * number)
        for number, drawn in enumerate((SMALL, early))
    ]
    path = tmp_path / "trace.json"
    write_perfetto(path, steps)
    assert broken_trace_rules(path.read_text()) == []
    events = json.loads(path.read_text())["traceEvents"]
    found = [
        (event["ts"], event["args"]["copies"]) for event in events if event["name"] == "copies in flight"
    ]
    assert found == [
        (0, 1), (0.09, 0), (0.1, 1), (0.11, 2), (0.12, 1), (0.21, 0), (0.22, 1), (0.24, 0),
    ]  # fmt: skip


def test_one_step_comes_back(waste: tuple[Instance, Plan, Plan], tmp_path: Path) -> None:
    instance, clean, _ = waste
    step = view_of(instance, clean, index=4, dilation=3.5, began_unix_ns=BEGAN)
    for name in ("step.json", "step.json.gz"):
        write_perfetto(tmp_path / name, [step], {"model": "m"})
        (again,) = open_view(tmp_path / name).steps
        assert dict(again.schedules) == dict(step.schedules)
    assert (tmp_path / name).stat().st_size < (tmp_path / "step.json").stat().st_size / 2
    assert (again.index, again.dilation, again.began_unix_ns) == (4, 3.5, BEGAN)


def profile_file(path: Path, **changes: Any) -> Path:
    event = {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 7, "tid": 7, "ts": 1000.5, "dur": 2.0}
    document = {"baseTimeNanoseconds": BEGAN - 10**9, "traceEvents": [event], "displayTimeUnit": "ms"}
    path.write_text(json.dumps({**document, **changes}))
    return path


def test_beside_a_profile_times_are_on_its_clock(waste: tuple[Instance, Plan, Plan], tmp_path: Path) -> None:
    instance, clean, _ = waste
    step = view_of(instance, clean, dilation=1000.0, began_unix_ns=BEGAN)
    write_perfetto(tmp_path / "both.json", [step], profile=profile_file(tmp_path / "profile.json"))
    document = json.loads((tmp_path / "both.json").read_text())
    theirs, *ours = document["traceEvents"]
    assert theirs["name"] == "aten::mm" and document["baseTimeNanoseconds"] == BEGAN - 10**9
    dense = next(event for event in ours if event.get("cat") == "dense")
    # The step began a second after the profiler's base; 3 modelled ns were 3 us.
    assert (dense["ts"], dense["dur"]) == (1e6, 3.0)
    assert {event["pid"] for event in ours} == {10**8 + 1, 10**8 + 2}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.unlink(), "got .*No such file"),
        (lambda path: path.write_text("{"), "got Expecting"),
        (lambda path: path.write_text("[]"), "got other JSON"),
        (lambda path: path.write_text('{"traceEvents": []}'), "without; use torch"),
    ],
)
def test_other_profiles_are_refused(
    waste: tuple[Instance, Plan, Plan], tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    step = view_of(*waste[:2], began_unix_ns=BEGAN)
    path = profile_file(tmp_path / "profile.json")
    spoil(path)
    with pytest.raises(ValueError, match=message):
        write_perfetto(tmp_path / "both.json", [step], profile=path)
    assert not (tmp_path / "both.json").exists()


def test_virtual_time_has_no_place_on_a_real_clock(
    waste: tuple[Instance, Plan, Plan], tmp_path: Path
) -> None:
    step = view_of(*waste[:2])
    with pytest.raises(ValueError, match="got step 0 in virtual time"):
        write_perfetto(tmp_path / "both.json", [step], profile=profile_file(tmp_path / "profile.json"))
    with pytest.raises(ValueError, match="at least one step"):
        write_perfetto(tmp_path / "none.json", [])


def test_a_copy_before_the_first_step_is_drawn(waste: tuple[Instance, Plan, Plan], tmp_path: Path) -> None:
    first = view_of(*waste[:2], began_unix_ns=BEGAN)
    schedule = first.schedule
    copy = replace(schedule.tasks[0], start_ns=-50)
    early = replace(schedule, tasks=(copy, *schedule.tasks[1:]))
    steps = [
        replace(first, schedules={"planned": early}),
        replace(first, index=1, schedules={"planned": schedule}, began_unix_ns=BEGAN + 10**4),
    ]
    write_perfetto(tmp_path / "trace.json", steps)
    assert broken_trace_rules((tmp_path / "trace.json").read_text()) == []
