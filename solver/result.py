"""What a solve may use and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from prescope.formulation.checks import require_finite, require_int
from prescope.formulation.plan import Plan
from prescope.solver.trajectory import Incumbent, ProvedBound


class Status(StrEnum):
    """What is known about a result."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    NO_PLAN = "no plan within the limits"


class HintUse(StrEnum):
    """What became of the hint."""

    ABSENT = "absent"
    IGNORED = "ignored"
    INFEASIBLE = "infeasible"
    ADAPTED = "adapted"
    USED = "used"


class RebuildReason(StrEnum):
    """Why a hint could not be adapted, or a model not be patched."""

    FIRST = "nothing was built before"
    LAYERS = "other number of layers"
    EXPERTS = "experts that this instance does not have"
    LOOKAHEAD = "other lookahead"
    PREDICTION = "prediction takes the host's time in only one of the two"
    CAPACITY = "more activated experts than the model has room for"
    ENGINE = "the engine takes no changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class HintChanges:
    """What adapting a plan to another instance changed, in experts over all layers.

    Parameters
    ----------
    kept
        Run where the plan had them.
    dropped
        In the plan, without tokens now.
    placed
        With tokens now but not in the plan: put where the DP has them.
    moved
        In both, but on the other device now: what made the plan infeasible, or the better of the two.
    recopied
        Run on the device in both, but a copy is needed now and was not then, or the other way round.
    """

    kept: int
    dropped: int
    placed: int
    moved: int
    recopied: int

    @property
    def any(self) -> bool:
        """Whether anything changed."""
        return bool(self.dropped or self.placed or self.moved or self.recopied)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a method may spend; ``None`` leaves it to the method.

    Parameters
    ----------
    wall_ns
        Wall time. Results may then differ from run to run. Only ``cp-sat`` looks at the clock; ``dp``
        cuts its effort so as to take about that long.
    deterministic_time
        CP-SAT's own measure of work (about seconds), the same on every run.
    workers
        Threads. More than one makes ``cp-sat`` irreproducible.
    """

    wall_ns: int | None = None
    deterministic_time: float | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        if self.wall_ns is not None:
            require_int("wall_ns", self.wall_ns, 1)
        if self.deterministic_time is not None:
            require_finite("deterministic_time", self.deterministic_time, 0.0)
        require_int("workers", self.workers, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """How a result came about; ``None`` where a method has no such thing.

    Parameters
    ----------
    hint
        What became of the hint.
    starts
        Plans that local search was started from.
    effort
        Local search: experts simulated.
    start_makespan_ns
        Makespan before improvement: of the plain lead DP (``dp``), or of the incumbent given (``cp-sat``).
    branches, conflicts, deterministic_time
        CP-SAT's counters.
    proved_bound_ns
        Lower bound that the method itself proved.
    bound_time_ns
        Wall time of the lower bound that `solve` adds where the method has none.
    hint_makespan_ns
        Makespan of the hint as it was used, adapted to the instance.
    hint_changes
        What adapting it changed; ``None`` where no hint was used.
    hint_refused
        Why the hint could not be adapted; ``None`` where it was, or where there was none.
    start_accepted
        Whether the exact solver took the plan it was started from for a feasible solution; ``None`` where it
        was given none or does not say.
    patched
        Whether the model of an earlier solve was changed in place; ``None`` where no model was needed.
    rebuilt
        Why it was built anew; ``None`` where it was patched or not needed.
    model_time_ns
        Wall time of building or patching the model.
    """

    hint: HintUse = HintUse.ABSENT
    starts: int | None = None
    effort: int | None = None
    start_makespan_ns: int | None = None
    branches: int | None = None
    conflicts: int | None = None
    deterministic_time: float | None = None
    proved_bound_ns: int | None = None
    bound_time_ns: int | None = None
    hint_makespan_ns: int | None = None
    hint_changes: HintChanges | None = None
    hint_refused: RebuildReason | None = None
    start_accepted: bool | None = None
    patched: bool | None = None
    rebuilt: RebuildReason | None = None
    model_time_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A plan and what is known about it.

    Parameters
    ----------
    method
        Who made it.
    plan
        The plan, or ``None`` with `Status.NO_PLAN`.
    makespan_ns
        By `prescope.formulation.evaluate`, never by the method's own account; ``None`` without a plan.
    lower_bound_ns
        No plan for the instance is shorter.
    status
        Whether the plan is proved optimal.
    time_ns
        Wall time of the method, without the final evaluation and without the lower bound that `solve` adds.
    statistics
        How it came about.
    incumbents
        Ever shorter plans as the method found them; empty for methods that answer once.
    bounds
        Ever better lower bounds as the method proved them; empty where it keeps no record.
    """

    method: str
    plan: Plan | None
    makespan_ns: int | None
    lower_bound_ns: int
    status: Status
    time_ns: int
    statistics: Statistics = field(default_factory=Statistics)
    incumbents: tuple[Incumbent, ...] = ()
    bounds: tuple[ProvedBound, ...] = ()

    @property
    def gap(self) -> float | None:
        """``(makespan - lower bound) / lower bound``; 0 when both are 0, ``None`` without a plan."""
        if self.makespan_ns is None:
            return None
        if self.makespan_ns == self.lower_bound_ns:
            return 0.0
        return (self.makespan_ns - self.lower_bound_ns) / max(self.lower_bound_ns, 1)
