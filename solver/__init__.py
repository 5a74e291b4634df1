"""Instance to plan: dynamic programming, rules, exact models and bounds."""

from __future__ import annotations

from prescope.formulation.instance import Instance
from prescope.solver.api import solve
from prescope.solver.base import Draft, Method
from prescope.solver.errors import SolverError, UnsuitableInstanceError
from prescope.solver.registry import get_method, methods
from prescope.solver.resolve import Resolver
from prescope.solver.result import (
    HintChanges,
    HintUse,
    Limits,
    RebuildReason,
    Result,
    Statistics,
    Status,
)
from prescope.solver.trajectory import Incumbent, ProvedBound

__all__ = [
    "Draft",
    "HintChanges",
    "HintUse",
    "Incumbent",
    "Limits",
    "Method",
    "ProvedBound",
    "RebuildReason",
    "Resolver",
    "Result",
    "SolverError",
    "Statistics",
    "Status",
    "UnsuitableInstanceError",
    "get_method",
    "lower_bound",
    "methods",
    "solve",
]


def lower_bound(instance: Instance, *, upper_ns: int | None = None) -> int:
    """Nanoseconds that no plan for the instance can beat; see `prescope.solver.bound.lower_bound`."""
    # Imported here: numba costs 0.3 s that listing the methods does not need.
    from prescope.solver.bound import lower_bound as compiled

    return compiled(instance, upper_ns=upper_ns)
