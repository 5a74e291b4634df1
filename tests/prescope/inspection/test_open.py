"""Every kind of file opens, with what it is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspected_files import NEEDS, PROVENANCE, Waste, opened, two_steps
from json_contract_inspect import Inspect
from small_schedule import SMALL

from prescope.cli import main
from prescope.formulation import PredictedDemand, Schedule, Transfer
from prescope.formulation.horizon import HorizonPlan
from prescope.inspection import ViewKind, open_view, step_of, waterfall
from prescope.instances import (
    HorizonFile,
    InstanceFile,
    RecordedStep,
    Recording,
    list_library,
    load_library_horizon,
    load_library_horizon_plan,
    write_horizon,
    write_instance,
    write_plan,
    write_recording,
)
from prescope.instances.horizon_plan_file import write_horizon_plan
from prescope.report import write_trace as write_schedules

STEPS = {
    ViewKind.PLAN: 1, ViewKind.PROGRAM: 1, ViewKind.TRACE: 1, ViewKind.RECORDING: 1, ViewKind.HORIZON_PLAN: 2,
}  # fmt: skip


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
    horizon, path = two_steps(instance), tmp_path / "plan.json"
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
    horizon = replace(two_steps(waste[0]), demands=(first, second))
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


def test_a_step_that_took_no_time_is_drawn(tmp_path: Path, waste: Waste, capsys: Any) -> None:
    instance, clean, _ = waste
    nothing = Schedule(tasks=(), layer_end_ns=(0, 0), makespan_ns=0)
    step = RecordedStep(index=0, instance=instance, plan=clean, schedules={"measured": nothing}, tokens=0)
    path = tmp_path / "run.json"
    write_recording(path, Recording(steps=(step,)))
    assert main(["inspect", str(path), "--html", str(tmp_path / "page.html")]) == 0
    assert "where the time went (measured)" in capsys.readouterr().out


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
