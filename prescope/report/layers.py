"""What happens in each layer of a schedule, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.schedule import Schedule, TaskKind
from prescope.report.origin import Origin, mark


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSummary:
    """One layer.

    Parameters
    ----------
    layer
        Its number.
    start_ns, end_ns
        From the end of the layer before to its own end.
    counts
        How many of its experts were computed with weights of each origin, and how many of its copies nobody
        used.
    """

    layer: int
    start_ns: int
    end_ns: int
    counts: dict[Origin, int]


def layer_summaries(schedule: Schedule) -> tuple[LayerSummary, ...]:
    """Summarise every layer of a schedule."""
    counts: list[dict[Origin, int]] = [{} for _ in schedule.layer_end_ns]
    for entry in mark(schedule):
        if entry.task.kind is TaskKind.COMPUTE or entry.origin is Origin.UNUSED:
            row = counts[entry.task.layer]
            row[entry.origin] = row.get(entry.origin, 0) + 1
    starts = (0, *schedule.layer_end_ns)
    return tuple(
        LayerSummary(layer=layer, start_ns=starts[layer], end_ns=end_ns, counts=counts[layer])
        for layer, end_ns in enumerate(schedule.layer_end_ns)
    )
