"""Solving one batch after another: the plan before as hint, the model before patched."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.solver.api import solve
from prescope.solver.base import Method
from prescope.solver.registry import get_method
from prescope.solver.result import Limits, Result


@runtime_checkable
class SessionMethod(Protocol):
    """A method that keeps its model between solves."""

    def session(self) -> Method:
        """A method object that remembers."""


class Resolver:
    """Plans batch after batch with one method.

    Every solve is given the plan of the one before as hint, adapted to the new instance. Methods that build a
    model (``cp-sat``, ``cp-sat-table``, ``milp``) keep it and change its numbers in place where the solver
    allows; ``statistics.patched`` and ``statistics.rebuilt`` of each result say so, and what the hint became.
    A patched model is equal to one built anew with the same room, so only time is saved, except that HiGHS
    also starts a relaxation from the last basis.

    Parameters
    ----------
    method
        A name among `prescope.solver.methods`, or a method object with its own settings.
    """

    def __init__(self, method: str | Method = "dp") -> None:
        chosen = get_method(method) if isinstance(method, str) else method
        self._method: Method = chosen.session() if isinstance(chosen, SessionMethod) else chosen
        self._last: Plan | None = None

    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits | None = None,
        seed: int = 0,
        hint: Plan | Result | None = None,
    ) -> Result:
        """Plan the next batch; arguments as of `prescope.solver.solve`.

        ``hint`` replaces the plan of the batch before.
        """
        given = self._last if hint is None else hint
        result = solve(instance, method=self._method, limits=limits, seed=seed, hint=given)
        if result.plan is not None:
            self._last = result.plan
        return result
