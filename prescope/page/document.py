"""What a page holds, before it is packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from prescope.formulation import Schedule

Pair = tuple[str, str]
Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSchedule:
    """A schedule with what is said of each task.

    Parameters
    ----------
    name
        ``"planned"``, ``"simulated"``, ``"executed"`` or ``"measured"``.
    schedule
        The tasks.
    origins
        Per task, an index into the timeline's origins.
    reasons
        Per task, 0 off the critical path, else 1 + an index into the timeline's reasons: what it waited for.
    """

    name: str
    schedule: Schedule
    origins: Sequence[int]
    reasons: Sequence[int]

    def __post_init__(self) -> None:
        for name, marks in (("origins", self.origins), ("reasons", self.reasons)):
            if len(marks) != len(self.schedule.tasks):
                raise ValueError(f"expected {len(self.schedule.tasks)} {name}, got {len(marks)}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageStep:
    """One step of a timeline.

    Parameters
    ----------
    label
        Its name in the step selector.
    number
        Its number on axes.
    tokens
        Tokens of the batch; ``None`` where not known.
    schedules
        Planned first.
    counts
        True tokens, ``[layers, experts]``; ``None`` where not known.
    residents
        Experts on the device when the step begins, bool ``[layers, experts]``; ``None`` where not known.
    probability, expected_tokens
        What the predictor said, float ``[layers, experts]``, NaN where it said nothing; ``None`` without one.
    gap
        Name and nanoseconds of the parts between the proved lower bound and the time taken; they sum to the
        last schedule's makespan. Empty where not known.
    spent
        Name and nanoseconds of the parts of the device's time; they sum to the last schedule's makespan.
    facts
        Pairs of text about this step alone.
    """

    label: str
    schedules: tuple[DrawnSchedule, ...]
    number: int = 0
    tokens: int | None = None
    counts: npt.NDArray[np.int64] | None = None
    residents: npt.NDArray[np.bool_] | None = None
    probability: npt.NDArray[np.float64] | None = None
    expected_tokens: npt.NDArray[np.float64] | None = None
    gap: tuple[tuple[str, int], ...] = ()
    spent: tuple[tuple[str, int], ...] = ()
    facts: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Why a task is where it is: one colour of the timeline.

    Parameters
    ----------
    name
        As the legend says it.
    style
        Which colour and pattern, a name that ``assets/palette.js`` knows.
    """

    name: str
    style: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Steps in order.

    Parameters
    ----------
    layers, experts
        Shape of the model; ``experts`` is 0 where not known.
    lanes
        Names of link, device and host, in this order.
    origins
        What tasks are coloured by.
    steps
        At least one.
    slots
        Buffers for copies; ``None`` where not known.
    expert_bytes
        Size of an expert of each layer; empty where not known.
    clocks
        For a schedule's name, what kind of time it shows, in words.
    reasons
        What a task of the critical path may have waited for, in words.
    abouts
        For a part of ``gap`` or ``spent``, what it means, in words.
    start
        Position of the step that is shown first.
    """

    layers: int
    experts: int
    origins: tuple[Origin, ...]
    steps: tuple[PageStep, ...]
    lanes: tuple[str, str, str] = ("link", "gpu", "cpu")
    slots: int | None = None
    expert_bytes: tuple[int, ...] = ()
    clocks: tuple[Pair, ...] = ()
    reasons: tuple[str, ...] = ()
    abouts: tuple[Pair, ...] = ()
    start: int = 0

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError("expected at least one step, got none")
        if not 0 <= self.start < len(self.steps):
            raise ValueError(f"expected start in [0, {len(self.steps) - 1}], got {self.start}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePanel:
    """A table that sorts by a click on its header.

    Parameters
    ----------
    title, note
        Above and below it.
    columns
        Headers.
    rows
        Cells: text, numbers, or ``None`` for unknown.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"expected {len(self.columns)} cells in a row of {self.title!r}, got {len(row)}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPanel:
    """Lines or bars over common places.

    Parameters
    ----------
    title, note
        Above and below it.
    kind
        ``"line"`` or ``"bar"``.
    x
        Numbers for a line, names for bars.
    series
        Name and values of each, as many as ``x``; ``None`` leaves a gap.
    x_label, y_label
        What the axes show, with units.
    mark
        Index into ``x`` of the place to point out; ``None`` for none.
    """

    title: str
    kind: str
    x: tuple[str | int | float, ...]
    series: tuple[tuple[str, tuple[float | None, ...]], ...]
    x_label: str = ""
    y_label: str = ""
    note: str = ""
    mark: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("line", "bar"):
            raise ValueError(f"expected kind to be line or bar, got {self.kind!r}")
        for name, values in self.series:
            if len(values) != len(self.x):
                raise ValueError(f"expected {len(self.x)} values in series {name!r}, got {len(values)}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeatPanel:
    """A matrix as colours, one cell a value.

    Parameters
    ----------
    title, note
        Above and below it.
    values
        Non-negative, ``[rows, columns]``.
    rows, columns
        What a row and a column are: ``"layer"``, ``"expert"``.
    unit
        What a value is: ``"tokens"``.
    """

    title: str
    values: npt.NDArray[np.float64]
    rows: str = "layer"
    columns: str = "expert"
    unit: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.values.ndim != 2:
            raise ValueError(f"expected values of shape [rows, columns], got {self.values.shape}")
        if not np.isfinite(self.values).all() or self.values.min(initial=0) < 0:
            raise ValueError(f"expected finite values >= 0 in {self.title!r}, got NaN, infinity or less")


Panel = TablePanel | ChartPanel | HeatPanel


@dataclass(frozen=True, slots=True, kw_only=True)
class PageDocument:
    """Everything one page shows.

    Parameters
    ----------
    title
        Heading and window title.
    kind
        What was inspected: ``"plan"``, ``"trace"``, ``"recording"``, ``"routing"``, ...
    facts
        The most important pairs of text, in order.
    provenance
        Where it comes from: versions, files, commands.
    notes
        Sentences that a reader must see: what is emulated, what was refused or degraded.
    timeline
        Steps; ``None`` for kinds that have none.
    panels
        Tables, charts and maps below it.
    """

    title: str
    kind: str
    facts: tuple[Pair, ...] = ()
    provenance: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()
    timeline: Timeline | None = None
    panels: tuple[Panel, ...] = field(default=())
