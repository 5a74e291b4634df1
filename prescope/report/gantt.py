"""A schedule as three rows of text, one per lane, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from prescope.formulation.schedule import Lane, Schedule, Task
from prescope.formulation.units import format_ns
from prescope.report.origin import MarkedTask, Origin, mark, shares

if TYPE_CHECKING:
    from rich.text import Text

LETTERS = {
    Origin.DENSE: "d",
    Origin.RESIDENT: "r",
    Origin.PREFETCHED: "p",
    Origin.LATE: "l",
    Origin.ON_DEMAND: "o",
    Origin.HOST: "c",
    Origin.PREDICTION: "f",
    Origin.UNUSED: "x",
}
STYLES = {
    Origin.DENSE: "bright_black",
    Origin.RESIDENT: "green",
    Origin.PREFETCHED: "cyan",
    Origin.LATE: "bright_yellow",
    Origin.ON_DEMAND: "yellow",
    Origin.HOST: "magenta",
    Origin.PREDICTION: "blue",
    Origin.UNUSED: "red",
}
# Not by colour alone: what went wrong is hatched.
BLOCKS = {Origin.LATE: "▓", Origin.UNUSED: "▒"}
LANES = (Lane.LINK, Lane.GPU, Lane.CPU)
PATH = {Lane.LINK: "L", Lane.GPU: "G", Lane.CPU: "C"}
IDLE = "."
Mark = TypeVar("Mark")
_MARGIN = 6  # "link  "
_TAIL = 6  # " 100 %"
_MIN_CELLS = 10


def gantt(
    schedule: Schedule,
    *,
    width: int,
    colour: bool = False,
    layers: tuple[int, int] | None = None,
    path: Iterable[Task] = (),
) -> Text:
    """Draw a schedule.

    Every column is an equal piece of time and shows what filled most of it; a dot where the lane was mostly
    idle. The share at the end of a row says how much of the time drawn the lane was busy.

    Parameters
    ----------
    schedule
        What to draw.
    width
        Columns to use, margins included; at least 22 are taken.
    colour
        Coloured blocks instead of letters.
    layers
        Draw only the time of these layers, first and last; all of it when ``None``.
    path
        Its critical path: one more row says on which lane it runs.

    Raises
    ------
    ValueError
        When ``layers`` is no range of the schedule's layers.
    """
    from rich.text import Text

    begin_ns, end_ns = window_ns(schedule, layers)
    cells = max(width - _MARGIN - _TAIL, _MIN_CELLS)
    busy = shares(schedule, begin_ns, end_ns)
    text = Text(no_wrap=True, overflow="crop")
    text.append(" " * _MARGIN + _ruler(schedule, begin_ns, end_ns, cells) + "\n")
    marked = mark(schedule)
    for lane in LANES:
        text.append(f"{lane.value:<{_MARGIN}}")
        row = _cells([entry for entry in marked if entry.task.lane is lane], begin_ns, end_ns, cells)
        for origin, run in groupby(row):
            _append(text, origin, len(list(run)), colour)
        text.append(f"{busy[lane]:>5.0%}".replace("%", " %") + "\n")
    critical = list(path)
    if critical:
        text.append(f"{'path':<{_MARGIN}}")
        lanes = _path(critical, begin_ns, end_ns, cells)
        letters = (IDLE if lane is None else PATH[lane] for lane in lanes)
        text.append("".join(letters), style="bold" if colour else "")
        text.append("\n")
    text.append(" " * _MARGIN + _axis(begin_ns, end_ns, cells) + "\n")
    text.append_text(_legend(marked, colour))
    if critical:
        words = ", ".join(f"{letter} {lane.value}" for lane, letter in PATH.items())
        text.append(f"\n{' ' * _MARGIN}path: what the end waits for; {words}")
    return text


def _append(text: Text, origin: Origin | None, columns: int, colour: bool) -> None:
    if origin is None:
        text.append(IDLE * columns, style="dim" if colour else "")
    else:
        shown = BLOCKS.get(origin, "█") if colour else LETTERS[origin]
        text.append(shown * columns, style=STYLES[origin] if colour else "")


def window_ns(schedule: Schedule, layers: tuple[int, int] | None) -> tuple[int, int]:
    """Start and end of the time that `gantt` draws; arguments and errors as there."""
    if layers is None:
        return min((task.start_ns for task in schedule.tasks), default=0), schedule.makespan_ns
    first, last = layers
    count = len(schedule.layer_end_ns)
    if not 0 <= first <= last < count:
        raise ValueError(f"expected layers FIRST:LAST in [0, {count - 1}], got {first}:{last}")
    return schedule.layer_end_ns[first - 1] if first else 0, schedule.layer_end_ns[last]


def _cells(lane: list[MarkedTask], begin_ns: int, end_ns: int, cells: int) -> list[Origin | None]:
    spans = ((entry.task, entry.origin) for entry in lane)
    return _filled(spans, begin_ns, end_ns, cells)


def _path(path: Iterable[Task], begin_ns: int, end_ns: int, cells: int) -> list[Lane | None]:
    return _filled(((task, task.lane) for task in path), begin_ns, end_ns, cells)


def _filled(spans: Iterable[tuple[Task, Mark]], begin_ns: int, end_ns: int, cells: int) -> list[Mark | None]:
    """What fills most of every cell; ``None`` where the cell is mostly empty."""
    span_ns = max(end_ns - begin_ns, 1)
    filled: list[dict[Mark, int]] = [{} for _ in range(cells)]
    # In units of 1/cells ns, where the borders of the cells are whole numbers.
    for task, marked in spans:
        start = max((task.start_ns - begin_ns) * cells, 0)
        end = min((task.end_ns - begin_ns) * cells, span_ns * cells)
        while start < end:
            cell = start // span_ns
            stop = min(end, (cell + 1) * span_ns)
            filled[cell][marked] = filled[cell].get(marked, 0) + stop - start
            start = stop
    return [_most(cell, span_ns) for cell in filled]


def _most(cell: dict[Mark, int], size: int) -> Mark | None:
    if 2 * sum(cell.values()) < size:
        return None
    return max(cell, key=lambda marked: cell[marked])


def _ruler(schedule: Schedule, begin_ns: int, end_ns: int, cells: int) -> str:
    """Numbers of the layers at the columns where they begin, as many as have room."""
    span_ns = max(end_ns - begin_ns, 1)
    row = [" "] * cells
    free = 0
    for layer in range(len(schedule.layer_end_ns)):
        start_ns = schedule.layer_end_ns[layer - 1] if layer else 0
        label = f"L{layer}"
        column = -(-(start_ns - begin_ns) * cells // span_ns)
        if free <= column <= cells - len(label):
            row[column : column + len(label)] = label
            free = column + len(label) + 1
    return "".join(row).rstrip()


def _axis(begin_ns: int, end_ns: int, cells: int) -> str:
    left, right = format_ns(begin_ns), format_ns(end_ns)
    return left + right.rjust(max(cells - len(left), len(right) + 1))


def _legend(marked: tuple[MarkedTask, ...], colour: bool) -> Text:
    from rich.text import Text

    present = {entry.origin for entry in marked}
    text = Text(" " * _MARGIN, no_wrap=True, overflow="crop")
    for origin in Origin:
        if origin in present:
            _append(text, origin, 1, colour)
            text.append(f" {origin.value}   ")
    text.rstrip()
    return text
