"""A rule as a planning method: the policy played over the batch with forecasts that are right."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.solver.base import Draft
from prescope.solver.online.policies import GatePolicy
from prescope.solver.result import HintUse, Limits, Statistics
from prescope.solver.rules.play import play


class RuleMethod:
    """Plans by playing a rule gate after gate.

    Parameters
    ----------
    policy
        A rule of this package with its parameters.
    """

    def __init__(self, policy: GatePolicy) -> None:
        self.policy = policy

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.policy.name

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch; limits and seed change nothing, a hint is ignored."""
        used = HintUse.ABSENT if hint is None else HintUse.IGNORED
        return Draft(
            plan=play(instance, self.policy),
            parameters=_parameters(self.policy),
            statistics=Statistics(hint=used),
        )


def _parameters(policy: Any) -> tuple[tuple[str, str], ...]:
    return tuple(
        (field.name, str(getattr(policy, field.name))) for field in fields(policy) if field.name != "name"
    )
