"""A page's document out of what `prescope inspect` opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from prescope.formulation import CostModel, Tier
from prescope.inspection import (
    Because,
    LayerMap,
    Part,
    StepView,
    View,
    ViewKind,
    ViewTable,
    spent,
    step_path,
    waterfall,
)
from prescope.inspection.units import readable, words
from prescope.inspection.view import Fact
from prescope.page.charts import charts_of
from prescope.page.document import (
    ChartPanel,
    DrawnSchedule,
    HeatPanel,
    Origin,
    PageDocument,
    PageStep,
    Pair,
    Panel,
    TablePanel,
    Timeline,
)
from prescope.report import Origin as MarkedOrigin
from prescope.report import mark

Progress = Callable[[int, int], None]

_STYLES = {
    MarkedOrigin.DENSE: "dense",
    MarkedOrigin.RESIDENT: "resident",
    MarkedOrigin.PREFETCHED: "prefetched",
    MarkedOrigin.LATE: "late",
    MarkedOrigin.ON_DEMAND: "on-demand",
    MarkedOrigin.HOST: "cpu",
    MarkedOrigin.PREDICTION: "prediction",
    MarkedOrigin.UNUSED: "unused",
}
_ORIGINS = tuple(_STYLES)
_REASONS = {
    Because.START: "nothing, it could start at once",
    Because.LANE: "waited for the task before it in its lane",
    Because.GATE: "waited for a gate",
    Because.COPY: "waited for its weights",
    Because.SLOT: "waited for its slot to become free",
    Because.LAYER: "waited for the layer before",
}
_BECAUSE = tuple(_REASONS)
_LANES = ("link", "gpu", "cpu")
_DISK_LANES = ("disk", "cpu", "host")  # weights come from disk to memory, and the processor is the device
_MUST_SEE = ("degraded", "refused")  # of a provenance, shown at the top as well
_CLOCKS = {
    "planned": "computed from the plan by the exact evaluator",
    "simulated": "the program run in virtual time",
    "executed": "what the backend did: in virtual time (sim), or really copied and computed in slow motion "
    "and divided by the dilation (cpu, emulated); it validates order and overhead, not the costs",
    "measured": "real time",
}


def page_document(view: View, *, start: int = 0, progress: Progress | None = None) -> PageDocument:
    """What the page of a view shows.

    Parameters
    ----------
    view
        Of any kind.
    start
        Position of the step that is shown first.
    progress
        Told how many steps are done, and of how many.
    """
    across = "layers ahead" if view.kind is ViewKind.PREDICTION else "expert"
    panels: list[Panel] = [_map_panel(layer_map, across) for layer_map in view.maps]
    if view.instance is not None and not view.steps:
        panels.append(_costs_panel(view.instance.costs, view.instance.demand.batch_tokens))
    panels += charts_of(view)
    panels += [_table_panel(table) for table in view.tables]
    return PageDocument(
        title=view.title,
        kind=view.kind.value,
        facts=_pairs({name: value for name, value in view.facts.items() if name != "notes"}),
        provenance=(("file", view.path), *_pairs(view.provenance)),
        notes=tuple(text for name in _MUST_SEE if (text := view.provenance.get(name))),
        timeline=_timeline(view, start, progress) if view.steps else None,
        panels=tuple(panels),
    )


def _timeline(view: View, start: int, progress: Progress | None) -> Timeline:
    layers = max(len(step.schedule.layer_end_ns) for step in view.steps)
    abouts: dict[str, str] = {}
    steps = []
    for done, step in enumerate(view.steps):
        steps.append(_step(view, step, layers, _experts(view), abouts))
        if progress is not None:
            progress(done + 1, len(view.steps))
    names = {name for step in view.steps for name in step.schedules}
    instance = view.steps[0].instance
    return Timeline(
        layers=layers,
        experts=_experts(view),
        slots=None if instance is None else instance.slots,
        expert_bytes=() if instance is None else instance.costs.expert_bytes,
        lanes=_DISK_LANES if instance is not None and instance.tier is Tier.DISK else _LANES,
        origins=tuple(Origin(name=origin.value, style=style) for origin, style in _STYLES.items()),
        reasons=tuple(_REASONS.values()),
        clocks=tuple((name, _clock(name, view)) for name in _CLOCKS if name in names),
        abouts=tuple(abouts.items()),
        steps=tuple(steps),
        start=start,
    )


def _clock(name: str, view: View) -> str:
    """What kind of time a schedule shows: as the file says, else what the word means."""
    told = view.provenance.get("times", "")
    return told.removeprefix(f"{name}:").strip() if told.startswith(f"{name}:") else _CLOCKS[name]


def _experts(view: View) -> int:
    """As many as the instance says, or as the tasks show."""
    known = [step.instance.experts for step in view.steps if step.instance is not None]
    if known:
        return max(known)
    seen = [task.expert for step in view.steps for task in step.schedule.tasks if task.expert is not None]
    return max(seen, default=-1) + 1


def _step(view: View, step: StepView, layers: int, experts: int, abouts: dict[str, str]) -> PageStep:
    instance = step.instance
    probability, expected = _forecasts(step, layers, experts)
    residents = None
    if instance is not None:
        residents = np.zeros((layers, experts), dtype=bool)
        for layer, row in enumerate(instance.residents):
            residents[layer, list(row)] = True
    fall = waterfall(step)
    return PageStep(
        number=step.index,
        label=f"{step.name}, {step.phase}" if step.phase else step.name,
        tokens=step.tokens,
        schedules=tuple(_drawn(step, name) for name in step.schedules),
        counts=None if instance is None else instance.demand.counts,
        residents=residents,
        probability=probability,
        expected_tokens=expected,
        gap=_parts(() if fall is None else fall.parts, abouts),
        spent=_parts(spent(step.schedule), abouts),
        facts=_pairs({} if len(view.steps) == 1 else step.notes),
    )


def _drawn(step: StepView, name: str) -> DrawnSchedule:
    schedule = step.schedules[name]
    # Tasks of a schedule may be equal; what lies on the path is told by identity.
    because = {id(link.task): 1 + _BECAUSE.index(link.because) for link in step_path(step, name)}
    return DrawnSchedule(
        name=name,
        schedule=schedule,
        origins=[_ORIGINS.index(entry.origin) for entry in mark(schedule)],
        reasons=[because.get(id(task), 0) for task in schedule.tasks],
    )


def _forecasts(
    step: StepView, layers: int, experts: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | tuple[None, None]:
    if not any(forecast is not None for forecast in step.forecasts):
        return None, None
    probability = np.full((layers, experts), np.nan)
    expected = np.full((layers, experts), np.nan)
    for layer, forecast in enumerate(step.forecasts):
        if forecast is not None:
            probability[layer] = forecast.probability
            expected[layer] = forecast.expected_tokens
    return probability, expected


def _parts(parts: tuple[Part, ...], abouts: dict[str, str]) -> tuple[tuple[str, int], ...]:
    abouts.update((part.name, part.about) for part in parts)
    return tuple((part.name, part.ns) for part in parts)


def _pairs(facts: Mapping[str, Fact]) -> tuple[Pair, ...]:
    return tuple((words(name), readable(name, value)) for name, value in facts.items() if value is not None)


def _table_panel(table: ViewTable) -> TablePanel:
    return TablePanel(title=table.title, columns=table.columns, rows=table.rows)


def _map_panel(layer_map: LayerMap, across: str) -> HeatPanel:
    return HeatPanel(title=layer_map.name, note=layer_map.about, values=layer_map.values, columns=across)


def _costs_panel(costs: CostModel, batch_tokens: int) -> ChartPanel:
    """What an expert costs by its tokens, against copying it: where each side pays."""
    tokens = sorted({*np.unique(np.geomspace(1, max(batch_tokens, 16), 24).astype(int)).tolist()})
    per_token = [("on the GPU", costs.gpu_ns), ("on the CPU", costs.cpu_ns)]
    series = [(name, tuple(cost(0, count) / 1e6 for count in tokens)) for name, cost in per_token]
    series.append(("copy", (costs.copy_ns(0) / 1e6,) * len(tokens)))
    return ChartPanel(
        title="Costs of an expert of layer 0",
        note="Where the CPU's line lies below that of a copy, computing in place is the faster way alone.",
        kind="line",
        x=tuple(tokens),
        series=tuple(series),
        x_label="tokens",
        y_label="ms",
    )
