"""One file, well formed, needing nothing, with every name escaped and every schedule inside."""

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_documents import HOSTILE, Elements, data_of, schedules_of, small_document
from small_schedule import SMALL

from prescope.formulation import Schedule, Task
from prescope.page import DrawnSchedule, PageDocument, PageStep, render_page, write_document
from prescope.page.codec import unpack_columns
from prescope.page.pack import step_states
from prescope.page.task_columns import read_columns, schedule_columns


def test_page_is_well_formed_and_names_are_never_markup() -> None:
    plain, hostile = (Elements(render_page(small_document(name=name))) for name in ("small", HOSTILE))
    assert hostile.complaints == []
    assert hostile.found == [
        (tag, {**attributes, "content": policy} if attributes.get("http-equiv") else attributes)
        for (tag, attributes), policy in zip(
            plain.found, [attributes.get("content") for _, attributes in hostile.found], strict=True
        )
    ]
    data = data_of(render_page(small_document(name=HOSTILE)))
    assert data["title"] == HOSTILE
    assert data["panels"][0]["rows"][0][0] == HOSTILE


def test_the_page_needs_nothing_else() -> None:
    page = render_page(small_document())
    assert re.findall(r"https?:|//[a-z]+\.|@import|url\((?!#)", page) == []
    sources = [
        attributes[name]
        for _, attributes in Elements(page).found
        for name in ("src", "href", "srcset", "action", "data")
        if name in attributes
    ]
    assert sources == ["data:,"]


def test_the_policy_allows_exactly_the_page_itself() -> None:
    page = render_page(small_document())
    policy = next(
        attributes["content"] for _, attributes in Elements(page).found if attributes.get("http-equiv")
    )
    assert policy is not None and policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        text = re.search(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)
        assert text is not None
        digest = base64.b64encode(hashlib.sha256(text.group(1).encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_what_goes_in_comes_out() -> None:
    document = small_document()
    data = data_of(render_page(document))
    assert document.timeline is not None
    states = np.cumsum(unpack_columns(data["timeline"]["states"]), axis=0)
    for at, step in enumerate(document.timeline.steps):
        assert schedules_of(data, at) == [
            replace(drawn, origins=list(drawn.origins), reasons=list(drawn.reasons))
            for drawn in step.schedules
        ]
        packed = data["timeline"]["steps"][at]
        counts, probability, expected = unpack_columns(packed["demand"])
        assert step.counts is not None and step.probability is not None
        np.testing.assert_array_equal(counts.reshape(2, 10), step.counts)
        assert (probability[:10] == -1).all() and (expected[:10] == -1).all()
        np.testing.assert_allclose(probability[10:] / 255, step.probability[1], atol=0.5 / 255)
        np.testing.assert_allclose(expected[10:] / 16, 4 * step.probability[1], atol=0.5 / 16)
        np.testing.assert_array_equal(states[at].reshape(2, 10), step_states(step, (2, 10)))
        assert [tuple(part) for part in packed["gap"]] == list(step.gap)
    heat = data["panels"][3]
    np.testing.assert_allclose(unpack_columns(heat["values"])[0] / heat["scale"], [0, 0.25, 1, 2], atol=0.001)


@given(st.data())
@settings(max_examples=60)
def test_any_schedule_survives(data: st.DataObject) -> None:
    """Overlapping tasks, negative starts, times beyond 32 bits, nothing at all."""
    base = data.draw(st.sampled_from(SMALL.tasks))
    time = st.integers(-(2**40), 2**44)
    tasks = []
    for _ in range(data.draw(st.integers(0, 12))):
        kind = data.draw(st.sampled_from(SMALL.tasks))
        start = data.draw(time)
        tasks.append(
            Task(
                kind=kind.kind,
                lane=kind.lane,
                layer=data.draw(st.integers(0, 3)),
                expert=kind.expert if data.draw(st.booleans()) else None,
                slot=data.draw(st.none() | st.integers(0, 300)),
                start_ns=start,
                end_ns=start + data.draw(st.integers(0, 2**33)),
            )
        )
    tasks.sort(key=lambda task: (task.start_ns, task.end_ns, task.lane, task.layer))
    drawn = DrawnSchedule(
        name=base.kind.value,
        schedule=Schedule(tasks=tuple(tasks), layer_end_ns=(3, 2**45, 2**45), makespan_ns=2**45),
        origins=[0] * len(tasks),
        reasons=[0] * len(tasks),
    )
    back = read_columns(drawn.name, schedule_columns(drawn), 2**45)
    assert sorted(back.schedule.tasks, key=repr) == sorted(tasks, key=repr)
    assert back.schedule.layer_end_ns == drawn.schedule.layer_end_ns


def test_a_page_that_would_be_too_large_drops_tasks_and_says_so() -> None:
    document, start = small_document(steps=40), 27
    document = replace(document, timeline=replace(document.timeline, start=start))
    whole = render_page(document)
    size = len(whole.encode())
    tasks = [len(step["tasks"]) for step in data_of(whole)["timeline"]["steps"]]
    assert all(tasks)
    limit = size - sum(tasks) // 2
    page = render_page(document, max_bytes=limit)
    kept = [step["tasks"] is not None for step in data_of(page)["timeline"]["steps"]]
    assert len(page.encode()) <= limit
    assert 15 <= sum(kept) <= 21
    assert kept[0] and kept[-1] and kept[start]
    # What is kept is spread over the run.
    assert max(len(run) for run in "".join(".#"[keep] for keep in kept).split("#")) <= 4
    assert all(step["demand"] for step in data_of(page)["timeline"]["steps"])


def test_demands_go_after_all_tasks_and_then_a_warning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    document = small_document(steps=40)
    whole = data_of(render_page(document))["timeline"]["steps"]
    tasks = sum(len(step["tasks"]) - 2 for step in whole)
    size = len(render_page(document).encode())
    limit = size - tasks - sum(len(step["demand"]) for step in whole) // 2
    page = render_page(document, max_bytes=limit)
    assert len(page.encode()) <= limit and not caplog.records
    steps = data_of(page)["timeline"]["steps"]
    assert all(step["tasks"] is None for step in steps)
    assert 15 <= sum(step["demand"] is not None for step in steps) <= 21
    none = data_of(render_page(document, max_bytes=0))["timeline"]["steps"]
    assert all(step["tasks"] is None and step["demand"] is None for step in none)
    assert "larger than 0 bytes" in caplog.text


def test_same_document_same_page() -> None:
    assert render_page(small_document()) == render_page(small_document())


def test_writing_is_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    size = write_document(small_document(), target)
    assert target.stat().st_size == size
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(FileNotFoundError, match="folder"):
        write_document(small_document(), tmp_path / "none" / "page.html")


def test_a_page_without_a_timeline() -> None:
    data = data_of(render_page(PageDocument(title="t", kind="bench"), max_bytes=0))
    assert data["timeline"] is None and data["panels"] == []


def test_states_say_what_happened_last() -> None:
    step = small_document().timeline.steps[0]  # type: ignore[union-attr]
    bare = PageStep(label="", schedules=step.schedules, residents=np.ones((2, 10), dtype=bool))
    states = step_states(bare, (2, 10))
    assert states[1, 9] == 3  # copied, nobody used it: the copy's origin
    assert states[0, 9] == 1  # resident, not used
    assert states[0, 1] == 3  # computed


def test_wrong_documents_are_refused() -> None:
    document = small_document()
    assert document.timeline is not None
    with pytest.raises(ValueError, match="at least one step"):
        replace(document.timeline, steps=())
    with pytest.raises(ValueError, match=r"start in \[0, 2\], got 3"):
        replace(document.timeline, start=3)
    with pytest.raises(ValueError, match="expected 11 origins, got 0"):
        replace(document.timeline.steps[0].schedules[0], origins=())
    with pytest.raises(ValueError, match="cells in a row"):
        replace(document.panels[0], rows=((1,),))
    with pytest.raises(ValueError, match="values in series"):
        replace(document.panels[1], x=("a",))
    with pytest.raises(ValueError, match="line or bar"):
        replace(document.panels[1], kind="pie")
    with pytest.raises(ValueError, match=r"\[rows, columns\]"):
        replace(document.panels[3], values=np.zeros(3))


def test_unknown_numbers_are_shown_as_unknown_and_maps_refuse_them() -> None:
    document = small_document()
    table, bars = document.panels[0], document.panels[1]
    odd = replace(
        document,
        panels=(
            replace(table, rows=(("a", float("nan")), ("b", float("inf")))),
            replace(bars, series=(("s", (float("nan"), 1.0)),)),
        ),
    )
    panels = data_of(render_page(odd))["panels"]
    assert panels[0]["rows"] == [["a", None], ["b", None]]
    assert panels[1]["series"][0]["values"] == [None, 1.0]
    for value in (float("nan"), float("inf"), -1.0):
        with pytest.raises(ValueError, match="finite values >= 0"):
            replace(document.panels[3], values=np.array([[value]]))
