"""What became of every expert of one layer."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation import Task, TaskKind
from prescope.inspection.critical import step_path
from prescope.inspection.view import StepView, named_schedule
from prescope.report.origin import Origin, mark


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertRow:
    """One expert that was computed or copied in a layer.

    Parameters
    ----------
    expert
        Its number.
    tokens
        Its true tokens; ``None`` where demand is not known.
    origin
        Where its weights came from, or who computed it.
    copy, compute
        Its tasks; ``None`` where there is none.
    landed_ns
        From the end of its copy to its layer's gate: negative when the gate spoke first.
    probability
        How likely it was said to be needed at the gate before; ``None`` without a forecast.
    critical
        Whether the end of the step waits for one of its tasks.
    """

    expert: int
    tokens: int | None
    origin: Origin
    copy: Task | None
    compute: Task | None
    landed_ns: int | None
    probability: float | None
    critical: bool


def expert_rows(step: StepView, layer: int, schedule: str | None = None) -> tuple[ExpertRow, ...]:
    """Experts of a layer in the order of their numbers.

    Raises
    ------
    ValueError
        When there is no such layer or schedule.
    """
    drawn = named_schedule(step, schedule)
    if not 0 <= layer < len(drawn.layer_end_ns):
        raise ValueError(f"expected --layer in [0, {len(drawn.layer_end_ns) - 1}], got {layer}")
    critical = {id(link.task) for link in step_path(step, schedule)}
    copies: dict[int, Task] = {}
    computed: dict[int, Task] = {}
    origins: dict[int, Origin] = {}
    gate_ns = 0
    for entry in mark(drawn):
        task = entry.task
        if task.layer != layer:
            continue
        if task.kind is TaskKind.DENSE:
            gate_ns = task.end_ns
        elif task.expert is not None:
            (copies if task.kind is TaskKind.COPY else computed)[task.expert] = task
            if task.kind is TaskKind.COMPUTE or entry.origin is Origin.UNUSED:
                # An expert that the host computes although it was copied is both.
                origins.setdefault(task.expert, entry.origin)
                if task.kind is TaskKind.COMPUTE:
                    origins[task.expert] = entry.origin
    forecast = step.forecasts[layer] if step.forecasts else None
    rows = []
    for expert in sorted(copies.keys() | computed.keys()):
        copy, compute = copies.get(expert), computed.get(expert)
        rows.append(
            ExpertRow(
                expert=expert,
                tokens=None if step.instance is None else int(step.instance.demand.counts[layer, expert]),
                origin=origins.get(expert, Origin.UNUSED),
                copy=copy,
                compute=compute,
                landed_ns=None if copy is None else gate_ns - copy.end_ns,
                probability=None if forecast is None else float(forecast.probability[expert]),
                critical=any(task is not None and id(task) in critical for task in (copy, compute)),
            )
        )
    return tuple(rows)
