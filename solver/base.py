"""What a planning method is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.solver.result import Limits, Statistics
from prescope.solver.trajectory import Incumbent, ProvedBound


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a method hands to `prescope.solver.solve`.

    Parameters
    ----------
    plan
        The plan, or ``None`` when none was found within the limits.
    parameters
        The method's settings, for the plan's own record.
    proved_bound_ns
        A lower bound the method proved itself; where ``None``, `prescope.solver.solve` computes its own.
    statistics
        How the plan came about.
    incumbents, bounds
        What was known when; see `prescope.solver.Result`. Empty for methods that answer once.
    """

    plan: Plan | None
    parameters: tuple[tuple[str, str], ...] = ()
    proved_bound_ns: int | None = None
    statistics: Statistics = field(default_factory=Statistics)
    incumbents: tuple[Incumbent, ...] = ()
    bounds: tuple[ProvedBound, ...] = ()


class Method(Protocol):
    """A way to plan a batch whose demand is known."""

    @property
    def name(self) -> str:
        """Its name in tables and in the registry."""

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch.

        Parameters
        ----------
        instance
            The problem.
        limits
            What may be spent.
        seed
            For methods with random choices.
        hint
            A plan that may help: the previous batch's, or another method's. It need not be feasible.
        """
