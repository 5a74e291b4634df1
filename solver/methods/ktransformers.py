"""The rule of KTransformers as a planning method; see `prescope.solver.rules.ktransformers`."""

from __future__ import annotations

from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.solver.base import Draft
from prescope.solver.errors import UnsuitableInstanceError
from prescope.solver.result import Limits
from prescope.solver.rules import KTransformers, RuleMethod


class StaticMask(RuleMethod):
    """Residents on the device, misses on the host, no copies.

    Raises
    ------
    UnsuitableInstanceError
        When the host cannot compute and an activated expert is not resident: nothing would be left of the
        rule.
    """

    def __init__(self) -> None:
        super().__init__(KTransformers())

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch; limits and seed change nothing, a hint is ignored."""
        if not instance.host_computes:
            for layer, resident in enumerate(instance.residents):
                missing = set(instance.demand.counts[layer].nonzero()[0].tolist()) - set(resident)
                if missing:
                    raise UnsuitableInstanceError(
                        f"expected a host that computes for {self.name}, which copies nothing, got "
                        f"host_computes=False with layer {layer} of {instance.name} missing {sorted(missing)}"
                    )
        return super().plan(instance, limits=limits, seed=seed, hint=hint)


METHOD = StaticMask()
