"""No prefetch, no host: every missing expert is copied at its own gate."""

from __future__ import annotations

from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.formulation.workload import workload
from prescope.solver.base import Draft
from prescope.solver.build_plan import build_plan
from prescope.solver.result import HintUse, Limits, Statistics
from prescope.solver.simulate import new_choice


class OnDemand:
    """Copy every missing expert at its layer's gate and run it on the device.

    With no slots nothing can be copied and the missing experts run on the host.
    """

    name = "on-demand"

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch; limits and seed change nothing, a hint is ignored."""
        work = workload(instance)
        choice = new_choice(work)
        choice.take[:] = work.slots > 0
        used = HintUse.ABSENT if hint is None else HintUse.IGNORED
        return Draft(plan=build_plan(work, choice, lookahead=0), statistics=Statistics(hint=used))


METHOD = OnDemand()
