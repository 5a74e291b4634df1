"""No copies: every missing expert runs on the host."""

from __future__ import annotations

from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.formulation.workload import workload
from prescope.solver.base import Draft
from prescope.solver.build_plan import build_plan
from prescope.solver.result import HintUse, Limits, Statistics
from prescope.solver.simulate import new_choice


class CpuOnly:
    """Run every missing expert on the host, in place.

    Where the host cannot compute (weights on disk) this is impossible, and every missing expert is copied at
    its layer's gate instead, as by ``on-demand``.
    """

    name = "cpu-only"

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch; limits and seed change nothing, a hint is ignored."""
        work = workload(instance)
        choice = new_choice(work)
        choice.take[:] = not work.host_computes
        used = HintUse.ABSENT if hint is None else HintUse.IGNORED
        return Draft(plan=build_plan(work, choice, lookahead=0), statistics=Statistics(hint=used))


METHOD = CpuOnly()
