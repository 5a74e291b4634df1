"""A general solver as this package sees it: a session holds one linear model, solves it and changes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Protocol

from prescope.formulation.checks import require_finite, require_int
from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.models.linear_model import LinearModel
from prescope.solver.errors import SolverError
from prescope.solver.trajectory import Incumbent, ProvedBound


class EngineError(SolverError):
    """A general solver refused a model or a parameter, or ended without a usable status."""


class EngineStatus(StrEnum):
    """How a solve ended; an error is an `EngineError`, never a status."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    NOTHING = "nothing found within the limits"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """What one solve may use.

    Parameters
    ----------
    wall_ns, deterministic_time, nodes
        The first reached ends the solve; ``None`` is no limit. ``cp-sat`` alone knows deterministic time,
        the others alone count nodes.
    workers
        Threads; MathOpt's HiGHS and SCIP always use one.
    relative_gap
        Stop when the incumbent is this near to the bound.
    seed
        For the solver's random choices.
    relax
        Leave integrality out and solve the linear programme.
    """

    wall_ns: int | None = None
    deterministic_time: float | None = None
    nodes: int | None = None
    workers: int = 1
    relative_gap: float = 0.0
    seed: int = 0
    relax: bool = False

    def __post_init__(self) -> None:
        for name in ("wall_ns", "nodes"):
            if getattr(self, name) is not None:
                require_int(name, getattr(self, name), 1)
        if self.deterministic_time is not None:
            require_finite("deterministic_time", self.deterministic_time, 0.0)
        require_int("workers", self.workers, 1)
        require_finite("relative_gap", self.relative_gap, 0.0)
        require_int("seed", self.seed, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EngineAnswer:
    """What a solve found, in the model's own units.

    Parameters
    ----------
    status
        How it ended.
    values
        A value for every column, float64 ``[n]``; ``None`` with `EngineStatus.NOTHING`.
    objective
        Of ``values``, by the solver's account.
    bound
        No solution's objective is below it; ``None`` where the solver said nothing. Exact from ``cp-sat`` and
        for relaxations (`prescope.solver.exact.safe_bound`); otherwise the solver's own less a margin for its
        tolerances.
    incumbents, bounds
        As they came, times since the solve began.
    deterministic_time, nodes
        The solver's measures of its work, where it has them.
    start_accepted
        Whether the solver took the start for a feasible solution; ``None`` where it does not say.
    """

    status: EngineStatus
    values: FloatArray | None
    objective: float | None
    bound: int | None
    incumbents: tuple[Incumbent, ...] = ()
    bounds: tuple[ProvedBound, ...] = ()
    deterministic_time: float | None = None
    nodes: int | None = None
    start_accepted: bool | None = None


ValueOf = Callable[[FloatArray], int]
"""What a solution is worth: from a value for every column to nanoseconds."""


class EngineSession(Protocol):
    """One model inside a solver."""

    def solve(
        self, limits: EngineLimits, *, start: IntArray | None = None, value_of: ValueOf | None = None
    ) -> EngineAnswer:
        """Solve it.

        Parameters
        ----------
        limits
            What may be used.
        start
            A feasible solution, for solvers that take one.
        value_of
            Says what each incumbent is worth; by default the model's own objective. Cheap, or it slows the
            solver down. ``math-opt-highs`` and ``scip`` report no incumbents.
        """

    def patch(self, model: LinearModel) -> bool:
        """Change the held model into one of the same shape; ``False`` where the solver cannot."""

    def close(self) -> None:
        """Free what the solver holds."""


class Engine(Protocol):
    """A general solver."""

    @property
    def name(self) -> str:
        """Its name."""

    def open(self, model: LinearModel) -> EngineSession:
        """Hand it a model."""


def trusted_bound(dual_bound: float) -> int:
    """A floating-point tree search's bound less what its tolerances may have cost, as a whole number.

    Feasibility and integrality tolerances are 1e-6 in units of which a model's horizon has about 1e5; a
    margin of 2e-6 of the bound covers both. It is a margin, not a proof. Plans take whole nanoseconds, so
    what is left is rounded up.
    """
    return max(0, ceil(dual_bound - 2e-6 * abs(dual_bound) - 1e-4))
