"""Every kind of file opens, with what it is, and everything else is refused by name."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_sweeps import rows, sweep
from example_traces import example_trace
from json_contract_inspect import Inspect
from small_schedule import SMALL

from prescope.cli import main
from prescope.formulation import Instance, Plan, PredictedDemand, Schedule, Transfer, evaluate
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.inspection import View, ViewKind, open_view, step_of, waterfall
from prescope.inspection.perfetto import write_perfetto
from prescope.instances import (
    HorizonFile,
    InstanceFile,
    Provenance,
    RecordedStep,
    Recording,
    list_library,
    load_library_horizon,
    load_library_horizon_plan,
    write_horizon,
    write_instance,
    write_plan,
    write_recording,
    write_trace,
)
from prescope.instances.horizon_plan_file import write_horizon_plan
from prescope.report import write_trace as write_schedules
from prescope.runtime.compile import compile_plan

Waste = tuple[Instance, Plan, Plan]
PROVENANCE = Provenance(source="test", created_by="test")


def write_evaluation(path: Path) -> None:
    measures = dict.fromkeys(
        ("recall", "wide_recall", "brier_skill", "calibration_error", "soft_count_error"), 0.5
    )
    measures |= dict.fromkeys(("hard_count_error", "four_in_six", "event_error"), 0.25)
    batch = {
        "batch": 4,
        "piece": None,
        "steps": 9,
        "gate_ns": 1000,
        "horizons": [
            {
                "horizon": 1,
                **measures,
                "worst_brier_skill": 0.1,
                "worst_event_error": 0.1,
                "reliability": [{"forecasts": 3, "said": 0.2, "happened": 0.3}],
            }
        ],
        "cells": [{"layer": 1, "horizon": 1, **measures}],
    }
    plan = {
        "batch": 4, "steps": 9, "policy": "dp", "predictor": "p", "realised_ns": 9, "no_prefetch_ns": 10,
        "clairvoyant_ns": 8, "useful": 1, "wasted": 2, "late": 3, "moved_bytes": 4, "wasted_bytes": 5,
        "gain": 0.1, "clairvoyant_share": 0.5,
    }  # fmt: skip
    path.write_text(
        json.dumps(
            {
                "trace": "t.npz", "output": None, "predictor": "p", "model": "m", "layers": 2, "experts": 3,
                "top_k": 1, "judged_sequences": 1, "learned_sequences": 1, "warning": None, "preset": None,
                "slots": 1, "resident_fraction": 0.5, "charged": True, "plans": [plan],
                "predictors": [{"name": "p", "missing": None, "batches": [batch]}],
            }
        )
    )  # fmt: skip


def horizon_of(instance: Instance) -> Horizon:
    return Horizon(
        name="two steps",
        costs=instance.costs,
        demands=(instance.demand, instance.demand),
        residents=instance.residents,
        slots=instance.slots,
        lookahead=instance.lookahead,
    )


@pytest.fixture
def kinds(waste: Waste, tmp_path: Path) -> dict[ViewKind, Path]:
    """A file of every kind."""
    instance, clean, _ = waste
    horizon = horizon_of(instance)
    plan = HorizonPlan(plans=(clean, clean), residents=(instance.residents,) * 2, method="hand")
    step = RecordedStep(
        index=3, instance=instance, plan=clean, schedules={"planned": evaluate(instance, clean)}, tokens=1
    )
    found = {kind: tmp_path / f"{kind.value}.json" for kind in ViewKind}
    found[ViewKind.ROUTING] = tmp_path / "routing.npz"
    found[ViewKind.BENCH] = sweep(tmp_path / "sweep", rows("dp", 10, None))
    write_instance(found[ViewKind.INSTANCE], InstanceFile(instance=instance, provenance=PROVENANCE))
    write_plan(found[ViewKind.PLAN], clean, instance)
    found[ViewKind.PROGRAM].write_bytes(compile_plan(instance, clean).to_json())
    write_schedules(found[ViewKind.TRACE], {"planned": SMALL}, {"policy": "dp"})
    write_recording(found[ViewKind.RECORDING], Recording(steps=(step,), facts={"model": "<m>"}))
    write_trace(found[ViewKind.ROUTING], example_trace(experts=8))
    write_horizon(found[ViewKind.HORIZON], HorizonFile(horizon=horizon, provenance=PROVENANCE))
    write_horizon_plan(found[ViewKind.HORIZON_PLAN], plan, horizon)
    write_evaluation(found[ViewKind.PREDICTION])
    return found


NEEDS = {ViewKind.PLAN: ViewKind.INSTANCE, ViewKind.HORIZON_PLAN: ViewKind.HORIZON}
STEPS = {
    ViewKind.PLAN: 1, ViewKind.PROGRAM: 1, ViewKind.TRACE: 1, ViewKind.RECORDING: 1, ViewKind.HORIZON_PLAN: 2,
}  # fmt: skip


def opened(kinds: dict[ViewKind, Path], kind: ViewKind) -> View:
    return open_view(kinds[kind], instance=kinds[NEEDS[kind]] if kind in NEEDS else None)


@pytest.mark.parametrize("kind", ViewKind)
def test_every_kind_opens_and_prints(
    kinds: dict[ViewKind, Path],
    kind: ViewKind,
    answer: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = opened(kinds, kind)
    assert (view.kind, view.path, len(view.steps)) == (kind, str(kinds[kind]), STEPS.get(kind, 0))
    assert view.title and view.facts and (view.provenance or kind is ViewKind.BENCH)
    assert view.steps or view.tables or view.maps
    named = ["--instance", str(kinds[NEEDS[kind]])] if kind in NEEDS else []
    found = answer(Inspect, "inspect", kinds[kind], *named)
    assert found.kind == kind.value and len(found.steps) == len(view.steps)
    assert (found.step is None) == (not view.steps)
    for width in ("30", "80", "160"):
        assert main(["inspect", str(kinds[kind]), *named, "--width", width]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        starts = ("link  ", "gpu   ", "cpu   ")
        lanes = [line for line in out.splitlines() if line.startswith(starts) and line.endswith(" %")]
        assert {len(line) for line in lanes} == ({int(width)} if view.steps else set())


def test_the_plan_and_the_program_made_of_it_tell_the_same(kinds: dict[ViewKind, Path]) -> None:
    plan, program = opened(kinds, ViewKind.PLAN), opened(kinds, ViewKind.PROGRAM)
    assert plan.steps[0].schedule.tasks == program.steps[0].schedule.tasks


def test_the_steps_of_a_horizon_have_their_own_problem(kinds: dict[ViewKind, Path]) -> None:
    view = opened(kinds, ViewKind.HORIZON_PLAN)
    assert view.facts["planned_ns"] == sum(step.schedule.makespan_ns for step in view.steps)
    for step in view.steps:
        found = waterfall(step)
        assert found is not None and sum(part.ns for part in found.parts) == found.makespan_ns


def test_the_link_of_a_step_is_busy_with_what_the_step_before_left(waste: Waste, tmp_path: Path) -> None:
    instance, clean, _ = waste
    more = replace(clean, transfers=(*clean.transfers, Transfer(layer=1, expert=2)))
    horizon, path = horizon_of(instance), tmp_path / "plan.json"
    write_horizon(tmp_path / "horizon.json", HorizonFile(horizon=horizon, provenance=PROVENANCE))
    plan = HorizonPlan(plans=(more, more), residents=(instance.residents,) * 2, method="hand")
    write_horizon_plan(path, plan, horizon)
    view = open_view(path, instance=tmp_path / "horizon.json")
    # Its third copy ends at 30 ns, the step at 22 ns.
    assert [step.instance.link_ready_ns for step in view.steps if step.instance] == [0, 8]
    assert sum(step.schedule.makespan_ns for step in view.steps) == view.facts["planned_ns"]


def test_routing_says_how_much_goes_to_the_most_popular(kinds: dict[ViewKind, Path]) -> None:
    view = opened(kinds, ViewKind.ROUTING)
    experts = view.maps[0].values.shape[1]
    for row, shares in zip(view.tables[0].rows, view.maps[0].values, strict=True):
        falling = np.sort(shares)[::-1] / shares.sum()
        assert row[1] == pytest.approx(falling[0])
        assert row[2] == pytest.approx(falling[: experts // 4].sum())
        assert row[3] == pytest.approx(falling[: experts // 2].sum())


def test_a_horizon_says_how_much_of_a_step_was_needed_in_the_one_before(waste: Waste, tmp_path: Path) -> None:
    first = waste[0].demand
    second = replace(first, counts=np.array([[1, 1, 0], [0, 1, 0]]), batch_tokens=2)
    horizon = replace(horizon_of(waste[0]), demands=(first, second))
    path = tmp_path / "horizon.json"
    write_horizon(path, HorizonFile(horizon=horizon, provenance=PROVENANCE))
    assert open_view(path).tables[0].rows == ((0, 1, 2, None), (1, 2, 3, 1 / 3))


def test_the_program_of_a_plan_is_written(
    kinds: dict[ViewKind, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "written.json"
    named = ["--instance", str(kinds[ViewKind.INSTANCE])]
    assert main(["inspect", str(kinds[ViewKind.PLAN]), *named, "--program", str(path)]) == 0
    assert f"written: {path}" in capsys.readouterr().out
    assert path.read_bytes() == kinds[ViewKind.PROGRAM].read_bytes()


def test_a_layer_lists_its_experts(waste: Waste, tmp_path: Path, capsys: Any) -> None:
    instance, _, wasteful = waste
    said = PredictedDemand(
        probabilities=np.full((1, 2, 3), 0.25), expected_tokens=np.full((1, 2, 3), 0.5), source="test"
    )
    predicted = replace(instance, predicted=said)
    places = tmp_path / "instance.json", tmp_path / "plan.json"
    write_instance(places[0], InstanceFile(instance=predicted, provenance=PROVENANCE))
    write_plan(places[1], wasteful, predicted)
    assert main(["inspect", str(places[1]), "--instance", str(places[0]), "--layer", "0"]) == 0
    out = capsys.readouterr().out
    table = out.partition("experts of layer 0")[2].splitlines()
    assert [line.split()[:3] for line in table[2:4]] == [["0", "1", "on"], ["2", "0", "unused"]]
    assert "25%" in table[2] and "demand said one layer ahead" in out


def test_an_instance_of_the_library_by_its_name() -> None:
    entry = list_library()[0]
    view = open_view(entry.name)
    assert (view.kind, view.title) == (ViewKind.INSTANCE, entry.name)
    assert len(view.tables[0].rows) == entry.layers
    assert sum(int(row[1] or 0) for row in view.tables[0].rows) == view.facts["activated"]


def test_a_horizon_of_the_library_by_its_name_and_with_its_plan(tmp_path: Path) -> None:
    entry = min(list_library(sets=["horizons"]), key=lambda entry: (entry.steps or 0) * entry.layers)
    view = open_view(entry.name)
    assert (view.kind, view.title, len(view.tables[0].rows)) == (ViewKind.HORIZON, entry.name, entry.steps)
    plan = tmp_path / "plan.json.gz"
    horizon = load_library_horizon(entry.name).horizon
    write_horizon_plan(plan, load_library_horizon_plan(entry.name).plan, horizon)
    for named in (None, entry.name):
        steps = open_view(plan, instance=named).steps
        assert len(steps) == entry.steps and steps[0].instance is not None
    with pytest.raises(ValueError, match="instances list"):
        open_view(plan, instance="no such thing")


def test_steps_by_number(kinds: dict[ViewKind, Path]) -> None:
    view = opened(kinds, ViewKind.RECORDING)
    assert step_of(view, 3) is step_of(view) is view.steps[0]
    with pytest.raises(ValueError, match=r"--step in \[3, 3\], got 0"):
        step_of(view, 0)
    with pytest.raises(ValueError, match="expected a file with steps, got routing"):
        step_of(opened(kinds, ViewKind.ROUTING))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "wrote in JSON, got"),
        (b"\xff\xfe", "wrote in JSON, got"),
        (b"[1]", "got other JSON"),
        (b"{}", "name a file that prescope wrote"),
        (b'{"format": "their-plan"}', "the format 'their-plan'"),
        (b'{"format": "prescope-plan"}', "field|version"),
        (b'{"format": "prescope-recording", "version": 1}', "prescope"),
        (b'{"format": "prescope-program/9"}', "program"),
        (b'{"traceEvents": []}', "written by prescope"),
        (b'{"summary": [], "origins": []}', "expected a whole answer of --json, got one without 'runs'"),
        (b'{"predictors": [], "judged_sequences": 1}', "expected a whole answer of --json"),
        (b"[" * 100_000, "wrote in JSON, got"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        open_view(path)
    assert "other.json" in str(caught.value) or "program" in str(caught.value)


def test_truncated_files_are_refused(kinds: dict[ViewKind, Path], tmp_path: Path) -> None:
    whole = gzip.compress(kinds[ViewKind.RECORDING].read_bytes())
    path = tmp_path / "cut.json.gz"
    for length in (0, 4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.json\.gz"):
            open_view(path)


def test_what_a_plan_is_for_must_be_named(kinds: dict[ViewKind, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="with --instance"):
        open_view(kinds[ViewKind.PLAN])
    with pytest.raises(ValueError, match="with --instance"):
        open_view(kinds[ViewKind.HORIZON_PLAN])
    with pytest.raises(ValueError, match="instances list"):
        open_view(kinds[ViewKind.PLAN], instance="no such thing")
    with pytest.raises(ValueError, match="expected a file, got none at .*nothing of that name"):
        open_view(tmp_path / "nowhere.json")
    with pytest.raises(ValueError, match="expected rows of a benchmark, got none"):
        open_view(sweep(tmp_path / "empty", []))


def test_what_is_read_is_never_written_over(
    waste: Waste, kinds: dict[ViewKind, Path], tmp_path: Path, capsys: Any
) -> None:
    plan, instance = kinds[ViewKind.PLAN], kinds[ViewKind.INSTANCE]
    before = plan.read_bytes(), instance.read_bytes()
    named = ["inspect", str(plan), "--instance", str(instance)]
    (tmp_path / "again.json").symlink_to(plan)
    for options in (
        ["--html", str(plan)],
        ["--perfetto", str(tmp_path / "again.json")],
        ["--program", str(instance)],
        ["--html", str(tmp_path / "new"), "--perfetto", str(tmp_path / "new")],
    ):
        assert main([*named, *options]) == 2
        assert "expected other files for" in capsys.readouterr().err
    assert (plan.read_bytes(), instance.read_bytes()) == before and not (tmp_path / "new").exists()


def test_a_trace_of_several_steps_is_not_read_and_the_remedy_helps(
    kinds: dict[ViewKind, Path], tmp_path: Path
) -> None:
    step = opened(kinds, ViewKind.RECORDING).steps[0]
    path = tmp_path / "steps.json"
    write_perfetto(path, [step, replace(step, index=4)])
    with pytest.raises(ValueError, match=r"one of several.*inspect --step N"):
        open_view(path)
    write_perfetto(path, [step])
    assert open_view(path).steps[0].index == 3


def test_a_step_that_took_no_time_is_drawn(tmp_path: Path, waste: Waste, capsys: Any) -> None:
    instance, clean, _ = waste
    nothing = Schedule(tasks=(), layer_end_ns=(0, 0), makespan_ns=0)
    step = RecordedStep(index=0, instance=instance, plan=clean, schedules={"measured": nothing}, tokens=0)
    path = tmp_path / "run.json"
    write_recording(path, Recording(steps=(step,)))
    assert main(["inspect", str(path), "--html", str(tmp_path / "page.html")]) == 0
    assert "where the time went (measured)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: d["predictors"][0]["batches"][0]["horizons"][0].update(recall=float("nan")), "got nan"),
        (lambda d: d["predictors"][0]["batches"][0]["horizons"][0].update(recall={"a": 1}), "got {'a': 1}"),
        (lambda d: d.update(layers=10**9), "got 1000000000 and"),
        (lambda d: d.update(layers=0), "got 0 and 1 ahead"),
        (lambda d: d["predictors"][0]["batches"][0]["cells"][0].update(horizon=10**8), "100000000 ahead"),
        (lambda d: d["predictors"][0]["batches"][0]["cells"][0].update(recall="x"), "to float: 'x'"),
    ],
)
def test_answers_that_make_no_sense_are_refused(
    kinds: dict[ViewKind, Path], spoil: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = kinds[ViewKind.PREDICTION]
    document = json.loads(path.read_text())
    spoil(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message) as caught:
        open_view(path)
    assert str(path) in str(caught.value)


def test_names_give_no_orders_to_the_terminal(
    waste: Waste, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    name = "\x1b[31mred\x1b[2J\x9b5m\x07"
    paths = [tmp_path / "first.json", tmp_path / "second.json"]
    for path, told in zip(paths, (name, "other"), strict=True):
        write_schedules(path, {"planned": SMALL}, {"policy": told})
    assert main(["inspect", str(paths[0])]) == 0
    assert main(["compare", *map(str, paths)]) == 0
    out = capsys.readouterr().out
    assert out.count("[31mred[2J5m") == 2 and out.replace("\n", "").isprintable()
    # Where there are colours, they are the only orders.
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert main(["inspect", str(paths[0])]) == 0
    coloured = capsys.readouterr().out
    assert "\x1b[" in coloured and "\x1b[2J" not in coloured and "\x9b" not in coloured
