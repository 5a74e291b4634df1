"""Proof of what a plan with a forced decision can reach at best, by the unrestricted CP-SAT model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.solver.forced import Force

if TYPE_CHECKING:
    from prescope.formulation.models.cp_sat_model import CpSatModel


def prove_forced(
    instance: Instance, force: Force, plan: Plan, *, deterministic_time: float = 5.0, seed: int = 0
) -> tuple[Plan, int, int]:
    """Improve a plan with a forced decision and bound all such plans.

    Parameters
    ----------
    instance, force
        The problem and the decision.
    plan
        A feasible plan that obeys it (`prescope.solver.forced.replan`).
    deterministic_time
        Limit in CP-SAT's own measure (about seconds).
    seed
        For CP-SAT.

    Returns
    -------
    plan, makespan_ns, lower_bound_ns
        No plan that obeys the decision is shorter than the bound; the plan is proved where both are equal.

    Raises
    ------
    ValueError
        When the expert has no tokens.
    """
    from prescope.formulation.evaluator import makespan_ns
    from prescope.formulation.models.cp_sat_model import build_cp_sat_model
    from prescope.solver.exact.cp_sat_run import run_cp_sat
    from prescope.solver.exact.engine import EngineLimits

    reached_ns = makespan_ns(instance, plan)
    # Experts that are alike may not be exchanged once one of them is told where to run.
    built = build_cp_sat_model(instance, horizon_ns=reached_ns, symmetry=False)
    model = built.model
    model.add(model.get_bool_var_from_proto_index(_variable(built, force)) == int(force.on_device))
    limits = EngineLimits(deterministic_time=deterministic_time, seed=seed)
    run = run_cp_sat(model, limits, hinted=False, name=f"{instance.name} with a forced decision")
    if run.found:
        found = built.read_plan(run.solver)
        found_ns = makespan_ns(instance, found)
        if found_ns < reached_ns:
            plan, reached_ns = found, found_ns
    return plan, reached_ns, min(run.bound, reached_ns)


def _variable(built: CpSatModel, force: Force) -> int:
    """The variable that says whether the expert runs on the device."""
    work, terms = built.work, built.layout.layers[force.layer]
    for kind, places in (("missing", terms.missing), ("resident", terms.residents)):
        offsets, experts = getattr(work, f"{kind}_offsets"), getattr(work, kind)
        low, high = int(offsets[force.layer]), int(offsets[force.layer + 1])
        for place, rank in enumerate(range(low, high)):
            if int(experts[rank]) == force.expert:
                return places[place].on
    raise ValueError(
        f"expected an expert of layer {force.layer} with tokens, got expert {force.expert}, which has none"
    )
