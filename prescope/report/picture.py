"""A schedule as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prescope.formulation.schedule import Lane, Schedule
from prescope.report.gantt import window_ns
from prescope.report.origin import Origin, mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    Origin.DENSE: "#9aa0a6",
    Origin.RESIDENT: "#34a853",
    Origin.PREFETCHED: "#1a9fbf",
    Origin.LATE: "#f2c94c",
    Origin.ON_DEMAND: "#f2780c",
    Origin.HOST: "#a142f4",
    Origin.PREDICTION: "#7b8794",
    Origin.UNUSED: "#ea4335",
}
LANES = (Lane.CPU, Lane.GPU, Lane.LINK)


def draw_schedule(schedule: Schedule, *, ax: Axes, layers: tuple[int, int] | None = None) -> None:
    """Draw the lanes of a schedule, coloured by where weights come from, on given axes, in milliseconds.

    Parameters
    ----------
    schedule
        What to draw.
    ax
        Axes of matplotlib.
    layers
        Draw only the time of these layers, first and last; all of it when ``None``.

    Raises
    ------
    ValueError
        When ``layers`` is no range of the schedule's layers.
    """
    begin_ns, end_ns = window_ns(schedule, layers)
    bars: dict[tuple[Lane, Origin], list[tuple[float, float]]] = {}
    for entry in mark(schedule):
        task = entry.task
        if task.end_ns > begin_ns and task.start_ns < end_ns:
            span = (task.start_ns / 1e6, task.duration_ns / 1e6)
            bars.setdefault((task.lane, entry.origin), []).append(span)
    for (lane, origin), spans in bars.items():
        height = (LANES.index(lane) - 0.4, 0.8)
        ax.broken_barh(spans, height, facecolors=COLOURS[origin], edgecolor="white", linewidth=0.3)
    for layer_end_ns in (0, *schedule.layer_end_ns):
        if begin_ns <= layer_end_ns <= end_ns:
            ax.axvline(layer_end_ns / 1e6, color="black", linewidth=0.5, alpha=0.4)
    ax.set_yticks(range(len(LANES)), [lane.value for lane in LANES])
    ax.set_xlim(begin_ns / 1e6, end_ns / 1e6)
    ax.set_xlabel("ms")


def legend_handles() -> list[Any]:
    """One patch of each colour, for the legend of a figure."""
    from matplotlib.patches import Patch

    return [Patch(color=colour, label=origin.value) for origin, colour in COLOURS.items()]
