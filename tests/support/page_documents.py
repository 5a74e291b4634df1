"""Pages of small made-up runs, and what a page holds read back."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
from small_schedule import SMALL

from prescope.formulation import Schedule, evaluate
from prescope.inspection import StepView, View, ViewKind
from prescope.page import (
    ChartPanel,
    DrawnSchedule,
    HeatPanel,
    Origin,
    PageDocument,
    PageStep,
    TablePanel,
    Timeline,
)
from prescope.page.codec import unpack_columns
from prescope.page.task_columns import COLUMNS, read_columns

HOSTILE = "<script>alert(1)</script><!-- </script> \u2028 & \" ' {{data}} {{script}} \\u003c é漢"
ORIGINS = (Origin(name="dense", style="dense"), Origin(name=HOSTILE, style="on-demand"))


def small_document(*, steps: int = 3, name: str = "small") -> PageDocument:
    """Two schedules a step, everything known, every kind of panel."""
    return PageDocument(
        title=name,
        kind="recording",
        facts=((name, name), ("experts", "10")),
        provenance=((name, name),),
        notes=(name,),
        timeline=Timeline(
            layers=2,
            experts=10,
            slots=3,
            expert_bytes=(10, 10),
            origins=ORIGINS,
            reasons=(name,),
            clocks=(("planned", name),),
            abouts=(("lower bound", name),),
            steps=tuple(small_step(at, name) for at in range(steps)),
        ),
        panels=(
            TablePanel(title=name, columns=(name, "time_ns"), rows=((name, 1), (None, 2.5)), note=name),
            ChartPanel(title=name, kind="bar", x=(name, "b"), series=((name, (1.0, None)),), mark=0),
            ChartPanel(title=name, kind="line", x=(1, 2), series=((name, (1.0, 2.0)), ("b", (None, 3.0)))),
            HeatPanel(title=name, values=np.array([[0.0, 0.25], [1.0, 2.0]]), unit=name),
        ),
    )


def odd_documents() -> dict[str, PageDocument]:
    """Documents at the edge of what is allowed."""
    document = small_document()
    timeline = document.timeline
    assert timeline is not None
    first, second, third = timeline.steps
    nothing = Schedule(tasks=(), layer_end_ns=(0, 0), makespan_ns=0)
    empty = DrawnSchedule(name="planned", schedule=nothing, origins=(), reasons=())
    bare = PageStep(label="nothing", schedules=(empty,))
    uneven = (replace(first, schedules=first.schedules[:1], tokens=None), second, bare, third)
    unknown = replace(timeline, experts=0, slots=None, expert_bytes=(), steps=(replace(bare, tokens=0),))
    zeros = np.zeros((2, 2))
    panels = (
        TablePanel(title="no rows", columns=("a", "b"), rows=()),
        ChartPanel(title="no bars", kind="bar", x=(), series=(("s", ()),)),
        ChartPanel(title="no line", kind="line", x=(), series=(("s", ()),)),
        ChartPanel(title="nothing known", kind="line", x=(1,), series=(("s", (None,)),), mark=0),
        ChartPanel(title="nothing known", kind="bar", x=("a",), series=(("s", (None,)),)),
        HeatPanel(title="zeros", values=zeros),
        HeatPanel(title="empty", values=np.zeros((0, 3))),
    )
    return {
        "uneven steps": replace(document, timeline=replace(timeline, steps=uneven, experts=10)),
        "nothing known": replace(document, timeline=unknown),
        "one empty step": replace(document, timeline=replace(timeline, steps=(bare,))),
        "empty panels": PageDocument(title="t" * 300, kind="bench", panels=panels),
    }


def small_step(at: int, name: str) -> PageStep:
    tasks = len(SMALL.tasks)
    marks = [1 if task.expert is not None else 0 for task in SMALL.tasks]
    drawn = [
        DrawnSchedule(name=word, schedule=SMALL, origins=marks, reasons=[index % 2 for index in range(tasks)])
        for word in ("planned", "executed")
    ]
    rng = np.random.default_rng(at)
    said = rng.random((2, 10))
    said[0] = np.nan
    return PageStep(
        label=f"{name} {at}",
        number=40 + at,
        tokens=4,
        schedules=tuple(drawn),
        counts=rng.integers(0, 5, (2, 10)),
        residents=rng.random((2, 10)) < 0.3,
        probability=said,
        expected_tokens=4 * said,
        gap=(("lower bound", 100), (name, 20)),
        spent=(("dense", 60), ("waiting for the cpu", 60)),
        facts=((name, name),),
    )


def horizon_view(horizon, plans, *, name: str = "tiny") -> View:
    """A view of planned steps, as `prescope.inspection.open_view` gives one."""
    steps = []
    for number, plan in enumerate(plans):
        instance = horizon.instance(number, horizon.residents)
        steps.append(
            StepView(
                index=number,
                name=f"step {number}",
                schedules={"planned": evaluate(instance, plan)},
                instance=instance,
                plan=plan,
                tokens=instance.demand.batch_tokens,
            )
        )
    return View(
        kind=ViewKind.RECORDING, path=name, title=name, facts={"steps": len(steps)}, steps=tuple(steps)
    )


def data_of(page: str) -> dict:
    """The object that a page embeds."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def schedules_of(data: dict, step: int) -> list[DrawnSchedule]:
    """The schedules of one step as the page's script unpacks them."""
    packed = data["timeline"]["steps"][step]
    columns = unpack_columns(packed["tasks"])
    heads = packed["schedules"]
    assert len(columns) == len(COLUMNS) * len(heads)
    return [
        read_columns(head["name"], columns[at :: len(heads)], head["makespan_ns"])
        for at, head in enumerate(heads)
    ]


class Elements(HTMLParser):
    """Every element of a page with its attributes; unbalanced ones are complaints."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.complaints: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        self.complaints += [f"<{tag}> is never closed" for tag in self._open]

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.complaints.append(f"</{tag}> closes something else")
