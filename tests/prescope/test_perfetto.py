"""Trace files: the format's rules hold, and nothing is lost."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from small_schedule import SMALL, task
from tiny_instances import instances_with_plans
from trace_rules import broken_trace_rules

from prescope.formulation import InfeasiblePlanError, Instance, Plan, Schedule, evaluate
from prescope.report import read_trace, trace_document, write_trace


def test_a_known_schedule_keeps_the_rules() -> None:
    document = trace_document({"planned": SMALL, "executed": SMALL})
    assert broken_trace_rules(json.dumps(document)) == []
    arrows = [event for event in document["traceEvents"] if event["ph"] == "s"]
    # Three copies are used in either schedule, and the unused one leads nowhere.
    assert len(arrows) == 6
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"]
    assert names == ["planned", "executed"]


def test_times_are_microseconds_from_zero() -> None:
    events = trace_document({"planned": SMALL})["traceEvents"]
    dense = next(event for event in events if event.get("cat") == "dense")
    # The copy that began 20 ns before the step is at zero.
    assert (dense["ts"], dense["dur"], dense["args"]["start_ns"]) == (0.02, 0.02, 0)


def test_tasks_that_overlap_in_a_lane_get_another_track() -> None:
    tasks = (task("compute", "cpu", 0, 1, None, 0, 10), task("compute", "cpu", 0, 2, None, 5, 15))
    schedule = Schedule(tasks=tasks, layer_end_ns=(15,), makespan_ns=15)
    document = trace_document({"executed": schedule})
    assert broken_trace_rules(json.dumps(document)) == []
    computed = [event for event in document["traceEvents"] if event.get("cat") == "cpu"]
    assert len({event["tid"] for event in computed}) == 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.pop("displayTimeUnit"),
        lambda document: document["traceEvents"][-1].update(ph="Z"),
        lambda document: next(e for e in document["traceEvents"] if e["ph"] == "X").update(dur=-1),
        lambda document: next(e for e in document["traceEvents"] if e["ph"] == "s").update(ts=99.0),
        lambda document: document["traceEvents"].remove(
            next(e for e in document["traceEvents"] if e["ph"] == "f")
        ),
        lambda document: next(e for e in document["traceEvents"] if e.get("cat") == "dense").update(
            dur=0.035
        ),
        lambda document: document["traceEvents"].remove(
            next(e for e in document["traceEvents"] if e["name"] == "thread_name")
        ),
    ],
)
def test_the_rules_find_what_is_wrong(spoil: object) -> None:
    document = trace_document({"planned": SMALL})
    assert callable(spoil)
    spoil(document)
    assert broken_trace_rules(json.dumps(document))


@given(instances_with_plans(), st.integers(0, 10**9))
def test_any_schedule_keeps_the_rules_and_comes_back(drawn: tuple[Instance, Plan], shift_ns: int) -> None:
    try:
        schedule = evaluate(*drawn)
    except InfeasiblePlanError:
        assume(False)
    document = trace_document({"planned": schedule, "small": SMALL}, {"policy": f"dp {shift_ns}"})
    text = json.dumps(document)
    assert broken_trace_rules(text) == []


@given(instances_with_plans())
def test_reading_gives_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, drawn: object) -> None:
    instance, plan = drawn  # type: ignore[misc]
    try:
        schedule = evaluate(instance, plan)
    except InfeasiblePlanError:
        assume(False)
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    write_trace(path, {"planned": schedule, "executed": SMALL}, {"policy": "dp"})
    trace = read_trace(path)
    assert trace.schedules == {"planned": schedule, "executed": SMALL}
    assert trace.notes == {"policy": "dp"}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ("[]", "expected a trace written by prescope"),
        ("{}", "expected a trace written by prescope"),
        ('{"otherData": {"format": "prescope-trace/9"}}', "expected format 'prescope-trace/1'"),
        (
            '{"otherData": {"format": "prescope-trace/1", "schedules": [{}], "notes": {}}}',
            "written by prescope",
        ),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_trace(path)
    assert str(path) in str(caught.value) and "Write it again" in str(caught.value)


def test_nothing_is_left_of_an_interrupted_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    write_trace(path, {"planned": SMALL})
    before = path.read_bytes()

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_trace(path, {"executed": SMALL})
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == before


def test_no_schedule_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one schedule"):
        trace_document({})


@pytest.mark.parametrize(
    "changes",
    [
        {"layer": 2},
        {"layer": -1},
        {"layer": "0"},
        {"layer": None},
        {"expert": -3},
        {"expert": 1.5},
        {"end_ns": -99},
        {"start_ns": True},
        {"start_ns": 10**30},
        {"kind": "party"},
        {"lane": []},
    ],
)
def test_tasks_that_make_no_sense_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    document = trace_document({"planned": SMALL})
    tasks = [event for event in document["traceEvents"] if event.get("cat") == "prefetched"]
    tasks[0]["args"].update(changes)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="Write it again") as caught:
        read_trace(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dilation": float("nan")}, "dilation > 0"),
        ({"dilation": -1}, "dilation > 0"),
        ({"began_unix_ns": 1.5}, "whole numbers"),
        (
            {"schedules": [{"pid": 9, "name": "x", "layer_end_ns": [], "makespan_ns": 0}]},
            "at least one layer",
        ),
        ({"schedules": [{"pid": 9, "name": "x", "layer_end_ns": [5], "makespan_ns": -5}]}, "makespan >= 0"),
        ({"schedules": [{"pid": 9, "name": "x", "layer_end_ns": [5, 4], "makespan_ns": 5}]}, "one after"),
    ],
)
def test_headers_that_make_no_sense_are_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    document = trace_document({"planned": SMALL})
    document["otherData"].update(changes)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        read_trace(path)
