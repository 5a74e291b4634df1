"""What inspection opened is what the page holds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_documents import data_of, horizon_view, schedules_of
from tiny_horizons import plan_step, tiny_horizon

from prescope.formulation import evaluate
from prescope.inspection import Because, LayerMap, View, ViewKind, ViewTable, critical_path, step_path
from prescope.page import render_page, write_page
from prescope.page.from_view import page_document
from prescope.report import mark


def tiny_view(seed: int, steps: int = 2) -> View:
    horizon = tiny_horizon(seed, steps, max_layers=3)
    plans = [plan_step(horizon.instance(step, horizon.residents)) for step in range(steps)]
    return horizon_view(horizon, plans)


@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_schedules_marks_and_sums_are_those_of_inspection(seed: int) -> None:
    view = tiny_view(seed)
    data = data_of(render_page(page_document(view)))
    timeline = data["timeline"]
    for at, step in enumerate(view.steps):
        (drawn,) = schedules_of(data, at)
        assert drawn.schedule == step.schedule
        names = [timeline["origins"][origin]["name"] for origin in drawn.origins]
        assert names == [entry.origin.value for entry in mark(step.schedule)]
        assert sum(reason > 0 for reason in drawn.reasons) == len(critical_path(step.schedule))
        packed = timeline["steps"][at]
        for parts in (packed["gap"], packed["spent"]):
            assert parts == [] or sum(ns for _, ns in parts) == step.schedule.makespan_ns
        assert packed["spent"] or not step.schedule.makespan_ns
        assert all(timeline["abouts"][name] for name, _ in packed["gap"] + packed["spent"])
        assert all(0 <= busy <= step.schedule.makespan_ns for busy in packed["schedules"][0]["busy_ns"])


@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_the_critical_path_knows_that_the_link_was_busy(seed: int) -> None:
    view = tiny_view(seed, steps=1)
    instance = view.steps[0].instance
    assert instance is not None
    busy = replace(instance, link_ready_ns=1000 + instance.costs.copy_ns(0))
    plan = plan_step(busy)
    step = replace(view.steps[0], instance=busy, plan=plan, schedules={"planned": evaluate(busy, plan)})
    document = page_document(replace(view, steps=(step,)))
    assert document.timeline is not None
    (drawn,) = document.timeline.steps[0].schedules
    waited = {id(link.task): link.because for link in step_path(step)}
    names = list(Because)
    assert [names[reason - 1] if reason else None for reason in drawn.reasons] == [
        waited.get(id(task)) for task in drawn.schedule.tasks
    ]


def test_the_step_asked_for_is_shown_first(tmp_path: Path) -> None:
    seen = []
    target = tmp_path / "page.html"
    size = write_page(
        tiny_view(3, steps=3), target, start=2, progress=lambda done, total: seen.append((done, total))
    )
    assert size == target.stat().st_size
    assert data_of(target.read_text(encoding="utf-8"))["timeline"]["start"] == 2
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_kinds_without_steps_become_tables_maps_and_costs() -> None:
    instance = tiny_view(1).steps[0].instance
    view = View(
        kind=ViewKind.INSTANCE,
        path="file",
        title="title",
        facts={"time_ns": 1500, "size_bytes": 2048, "hits_share": 0.25, "ok": True, "unknown": None},
        instance=instance,
        tables=(ViewTable(title="table", columns=("a", "b_ns"), rows=(("x", 1),)),),
        maps=(LayerMap(name="map", about="what", values=np.ones((2, 3))),),
    )
    document = page_document(view)
    assert document.timeline is None
    assert [type(panel).__name__ for panel in document.panels] == ["HeatPanel", "ChartPanel", "TablePanel"]
    assert document.facts == (
        ("time", "1.50 us"),
        ("size", "2 KiB"),
        ("hits", "25.0%"),
        ("ok", "yes"),
    )
    render_page(document)


def test_times_are_called_what_the_file_calls_them() -> None:
    view = tiny_view(1)
    told = View(
        kind=view.kind,
        path="p",
        title="t",
        facts={},
        provenance={"times": "planned: by hand", "degraded": "one rail was lost"},
        steps=view.steps,
    )
    document = page_document(told)
    assert document.notes == ("one rail was lost",)
    timeline = document.timeline
    assert timeline is not None and timeline.clocks == (("planned", "by hand"),)


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    def never(done: int, total: int) -> None:
        raise AssertionError("the work was begun")

    with pytest.raises(ValueError, match="got the folder"):
        write_page(tiny_view(1), tmp_path, progress=never)
    with pytest.raises(FileNotFoundError, match="make it first"):
        write_page(tiny_view(1), tmp_path / "none" / "page.html", progress=never)


def test_a_start_that_is_no_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="start"):
        write_page(tiny_view(1), tmp_path / "page.html", start=2)
