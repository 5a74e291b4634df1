"""What there is to see of a file: the one model behind the terminal, the page and Perfetto."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite

from prescope.formulation import Forecast, Instance, Plan, Schedule
from prescope.formulation.demand import FloatArray
from prescope.instances import RecordedStep
from prescope.instances.recording import said_before

Cell = str | int | float | None
Fact = str | int | float | bool | None


class ViewKind(StrEnum):
    """Kinds of files that can be looked at."""

    INSTANCE = "instance"
    PLAN = "plan"
    PROGRAM = "program"
    TRACE = "trace"
    RECORDING = "recording"
    ROUTING = "routing"
    HORIZON = "horizon"
    HORIZON_PLAN = "horizon plan"
    BENCH = "bench"
    PREDICTION = "prediction"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepView:
    """One step.

    Parameters
    ----------
    index
        Its number in the run; 0 where it stands alone.
    name
        For headings.
    schedules
        By name, what was intended first: ``"planned"`` by the exact evaluator, ``"simulated"`` in virtual
        time, ``"executed"`` in slow motion and divided by its dilation, ``"measured"`` in real time.
    instance, plan
        The problem with its true demand and the residents of this step, and what was decided; ``None`` where
        the file does not have them.
    tokens, phase
        As in `prescope.instances.RecordedStep`; ``None`` and empty where not known.
    forecasts, dilation, began_unix_ns, notes
        As in `prescope.instances.RecordedStep`.
    """

    index: int = 0
    name: str
    schedules: Mapping[str, Schedule]
    instance: Instance | None = None
    plan: Plan | None = None
    tokens: int | None = None
    phase: str = ""
    forecasts: tuple[Forecast | None, ...] = ()
    dilation: float = 1.0
    began_unix_ns: int | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.schedules:
            raise ValueError("expected at least one schedule of a step, got none")

    @property
    def schedule(self) -> Schedule:
        """What happened, or what comes nearest to it."""
        return tuple(self.schedules.values())[-1]

    @property
    def planned(self) -> Schedule | None:
        """What was intended."""
        return self.schedules.get("planned")

    @property
    def residents(self) -> tuple[tuple[int, ...], ...] | None:
        """Per layer, the experts that were resident."""
        return None if self.instance is None else self.instance.residents


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTable:
    """A table.

    Parameters
    ----------
    title
        Its heading.
    columns
        Names that carry their unit as ``_ns``, ``_bytes`` or ``_share`` (0 to 1).
    rows
        Cells, ``None`` where there is nothing to say.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"expected {len(self.columns)} cells in a row, got {len(row)}")
            for cell in row:
                if not isinstance(cell, str | int | None) and not (
                    isinstance(cell, float) and isfinite(cell)
                ):
                    raise ValueError(
                        f"expected text, finite numbers or nothing in {self.title!r}, got {str(cell)[:40]}"
                    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerMap:
    """A number for every expert.

    Parameters
    ----------
    name, about
        Its heading, and what it says in a sentence.
    values
        float64 ``[layers, experts]``, not negative.
    """

    name: str
    about: str
    values: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """Everything there is to see of one file.

    Parameters
    ----------
    kind
        What it is.
    path, title
        The file, and a short name for headings.
    facts
        What it says of itself, in the order to show; names carry units as in `ViewTable`.
    provenance
        Versions, model, whose costs, policy, predictor, machine, and what is emulated.
    steps
        What has a timeline; none of an instance, one of a plan, a program and a trace.
    instance
        Of a plan, a trace with one, and of an instance file.
    tables, maps
        What has none.
    """

    kind: ViewKind
    path: str
    title: str
    facts: Mapping[str, Fact]
    provenance: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[StepView, ...] = ()
    instance: Instance | None = None
    tables: tuple[ViewTable, ...] = ()
    maps: tuple[LayerMap, ...] = ()


def recorded_view(step: RecordedStep) -> StepView:
    """A recorded step as one to look at."""
    order = ("planned", "simulated", "executed", "measured")
    return StepView(
        index=step.index,
        name=f"step {step.index}",
        schedules={name: step.schedules[name] for name in order if name in step.schedules},
        instance=step.instance,
        plan=step.plan,
        tokens=step.tokens,
        phase=step.phase,
        forecasts=step.forecasts or said_before(step.instance),
        dilation=step.dilation,
        began_unix_ns=step.began_unix_ns,
        notes=step.notes,
    )


def step_of(view: View, index: int | None = None) -> StepView:
    """One step of a view: by its number, or the slowest.

    Raises
    ------
    ValueError
        When there is none of that number, or none at all.
    """
    if not view.steps:
        raise ValueError(f"expected a file with steps, got {view.kind.value} in {view.path}")
    if index is None:
        return max(view.steps, key=lambda step: step.schedule.makespan_ns)
    for step in view.steps:
        if step.index == index:
            return step
    first, last = view.steps[0].index, view.steps[-1].index
    raise ValueError(f"expected --step in [{first}, {last}], got {index} for {view.path}")


def named_schedule(step: StepView, name: str | None) -> Schedule:
    """A schedule of a step by its name, the last when ``None``; ``ValueError`` when there is none."""
    if name is None:
        return step.schedule
    if name not in step.schedules:
        raise ValueError(f"expected a schedule among {', '.join(step.schedules)}, got {name!r}")
    return step.schedules[name]
