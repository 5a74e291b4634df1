"""Recordings come back as they were; damaged, foreign and wrong ones are refused by name."""

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_schedule import SMALL
from tiny_instances import Picker, make_instance, make_plan

from prescope.formulation import Forecast, InfeasiblePlanError, evaluate
from prescope.instances import (
    InstanceFileError,
    RecordedStep,
    Recording,
    read_plan,
    read_recording,
    write_recording,
)


def recorded(seed: int, steps: int = 3) -> Recording:
    """Steps of one shape and of other residents now and then; raises where a plan does not fit."""
    pick = Picker(random.Random(seed).randint)
    instance = make_instance(pick, predictions=pick.chance(50))
    plan = make_plan(pick, instance)
    schedule = evaluate(instance, plan)
    forecasts = tuple(
        None
        if pick.chance(30)
        else Forecast(
            expected_tokens=np.full(instance.experts, pick.integer(0, 40000) / 10000),
            probability=np.full(instance.experts, pick.integer(0, 10000) / 10000),
        )
        for _ in range(instance.layers)
    )
    found = []
    for number in range(steps):
        here = instance
        if number == steps - 1:
            # With other residents the plan may not fit: it is stored with its own schedule.
            residents = (tuple(range(instance.experts)), *instance.residents[1:])
            here = replace(instance, link_ready_ns=instance.link_ready_ns + 1, residents=residents)
        happened = replace(schedule, makespan_ns=schedule.makespan_ns + pick.integer(0, 3))
        found.append(
            RecordedStep(
                index=2 * number,
                instance=here,
                plan=plan,
                schedules={"planned": schedule, "executed": happened},
                tokens=pick.integer(0, 9),
                phase=pick.one(("", "prefill", "decode")),
                forecasts=forecasts if pick.chance(50) else (),
                dilation=pick.integer(1, 50) / 2,
                began_unix_ns=10**18 + number if pick.chance(50) else None,
                notes={"degraded": "<b>"} if pick.chance(30) else {},
            )
        )
    return Recording(steps=tuple(found), facts={"model": "m", "policy": "dp"})


def parts(recording: Recording) -> list[dict[str, Any]]:
    """Everything that can be compared with ``==``."""
    return [
        {
            **{name: getattr(step, name) for name in ("index", "instance", "plan", "tokens", "phase")},
            "schedules": dict(step.schedules),
            "dilation": step.dilation,
            "began": step.began_unix_ns,
            "notes": dict(step.notes),
            "forecasts": [
                None if one is None else (one.expected_tokens.tolist(), one.probability.tolist())
                for one in step.forecasts
            ],
        }
        for step in recording.steps
    ]


@settings(max_examples=40)
@given(st.integers(0, 10**9), st.sampled_from([".json", ".json.gz"]))
def test_what_is_written_comes_back(tmp_path_factory: pytest.TempPathFactory, seed: int, ending: str) -> None:
    try:
        recording = recorded(seed)
    except InfeasiblePlanError:
        assume(False)
        raise
    path = tmp_path_factory.mktemp("recording") / f"run{ending}"
    write_recording(path, recording)
    again = read_recording(path)
    assert parts(again) == parts(recording) and dict(again.facts) == dict(recording.facts)
    first = path.read_bytes()
    write_recording(path, again)
    assert path.read_bytes() == first and list(path.parent.iterdir()) == [path]


def good(ending: str = ".json") -> Recording:
    for seed in range(1000):
        try:
            recording = recorded(seed)
        except InfeasiblePlanError:
            continue
        if recording.steps[0].plan.transfers and recording.steps[0].instance.residents[0]:
            return recording
    raise AssertionError("no seed gives a plan with copies")


def test_forecasts_are_rounded(tmp_path: Path) -> None:
    recording = good()
    step = recording.steps[0]
    forecast = Forecast(
        expected_tokens=np.full(step.instance.experts, 1 / 3),
        probability=np.full(step.instance.experts, 2 / 3),
    )
    said = replace(step, forecasts=(forecast,) * step.instance.layers)
    write_recording(tmp_path / "run.json", replace(recording, steps=(said,)))
    (again,) = read_recording(tmp_path / "run.json").steps
    assert again.forecasts[0] is not None and again.forecasts[0].probability[0] == 0.6667


def test_what_the_evaluator_knows_is_not_stored(tmp_path: Path) -> None:
    write_recording(tmp_path / "run.json", good())
    document = json.loads((tmp_path / "run.json").read_bytes())
    assert document["steps"][0]["schedules"]["planned"] is None
    assert document["steps"][1]["residents"] is None and len(document["costs"]) == 1


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: d.update(version=2), "upgrade"),
        (lambda d: d.update(surprise=1), "unknown field `surprise`"),
        (lambda d: d["steps"][0].update(surprise=1), "unknown field `surprise`"),
        (lambda d: d["steps"][0].update(tokens=7777), "checksum"),
        (lambda d: d["steps"][0].update(residents=None), "residents in the first step"),
        (lambda d: d["steps"][0].update(costs=1), "distinct costs"),
        (lambda d: d.update(costs=2 * d["costs"]), "distinct costs"),
        (lambda d: d["steps"][1].update(residents=d["steps"][0]["residents"]), "null where they stay"),
        (lambda d: d["steps"][0]["demand"].__setitem__(0, [0]), "each with tokens"),
        (lambda d: d["steps"][0]["demand"].__setitem__(0, [0, 0]), "experts with tokens"),
        (lambda d: d["steps"][1].update(index=0), "ascending numbers"),
        (lambda d: d["steps"][0]["plan"]["layers"].pop(), "expected"),
        (lambda d: d["steps"][0]["schedules"].update(hoped=None), "hoped"),
        (lambda d: d["steps"][0].update(dilation=0), "dilation > 0"),
        (lambda d: d.update(steps=[]), "steps"),
    ],
)
def test_wrong_ones_are_refused_with_the_field(tmp_path: Path, spoil: Any, message: str) -> None:
    path = tmp_path / "run.json"
    write_recording(path, good())
    document = json.loads(path.read_bytes())
    spoil(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InstanceFileError, match=message) as caught:
        read_recording(path)
    assert str(path) in str(caught.value)


def test_truncated_and_foreign_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    write_recording(path, good())
    whole = path.read_bytes()
    for length in (0, 5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InstanceFileError, match=r"gzip|truncated"):
            read_recording(path)
    path.write_bytes(gzip.compress(gzip.decompress(whole)[:-20]))
    with pytest.raises(InstanceFileError, match="damaged"):
        read_recording(path)
    path.write_bytes(whole)
    with pytest.raises(InstanceFileError, match=r"prescope\.instances\.read_recording"):
        read_plan(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedules": {}}, "at least one schedule"),
        ({"schedules": {"wished": SMALL}}, "named planned, simulated"),
        ({"phase": "lunch"}, "a phase among"),
        ({"forecasts": (None,) * 99}, "no forecasts or"),
        ({"dilation": 0.0}, "dilation > 0"),
        ({"index": -1}, "index"),
        ({"tokens": -1}, "tokens"),
        ({"began_unix_ns": -1}, "began_unix_ns"),
    ],
)
def test_steps_check_what_they_hold(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(good().steps[0], **changes)


def test_schedules_of_another_shape_are_refused() -> None:
    step = good().steps[0]
    planned = step.schedules["planned"]
    backwards = replace(planned.tasks[0], start_ns=10, end_ns=5)
    for schedule, message in (
        (replace(planned, layer_end_ns=(*planned.layer_end_ns, 99)), "layers in the executed schedule"),
        (replace(planned, tasks=(replace(planned.tasks[0], layer=77),)), "got layer 77"),
        (replace(planned, tasks=(replace(planned.tasks[0], expert=99),)), "expert 99"),
        (replace(planned, tasks=(replace(planned.tasks[0], expert=-1),)), "expert -1"),
        (replace(planned, tasks=(backwards,)), "end after they start"),
        (replace(planned, tasks=planned.tasks[::-1]), "in the order of their starts"),
        (replace(planned, makespan_ns=-1), "makespan >= 0"),
        (replace(planned, layer_end_ns=planned.layer_end_ns[::-1]), "one after the other"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(step, schedules={"executed": schedule})
    with pytest.raises(ValueError, match="at least one step"):
        Recording(steps=())
