"""The best plan that we can find for an instance or horizon of the library, and what is proved about it."""

from dataclasses import replace

from prescope.bench.pairs import plan_pair
from prescope.formulation import Instance, Plan, makespan_ns
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.instances import Bounds
from prescope.solver import Limits, UnsuitableInstanceError, lower_bound, methods, solve
from prescope.solver.methods.dp import LeadDp
from prescope.solver.proof import PROOF_TIME, prove
from prescope.solver.prove_bounds import BY_BOUND, BY_CP_SAT
from prescope.solver.residency import horizon_bound
from prescope.solver.residency.prove import BY_FLOWS

# CP-SAT proves nothing on large instances (docs/formulation.md), so it is not asked there.
EXACT_UP_TO_EXPERTS = 60
EXACT_METHODS = ("cp-sat", "cp-sat-table", "milp")
SEEDS = range(1, 4)
# Above this gap the table model is tried; it assumes the planners' structure, so only its plan is taken.
OPEN = 1e-3
TABLE_LIMITS = Limits(deterministic_time=2.0, workers=1)

# The gate policy leaves the link idle where a plan of the step would not: now and then that is worth more.
OFFLINE_PAIRS = ("belady+dp-fast", "flow+dp-fast", "belady+dp", "flow+dp", "flow+expected")


def best_horizon_plan(horizon: Horizon, stored: HorizonPlan | None) -> tuple[HorizonPlan, int, Bounds]:
    """Return the best plan of the rules that know all demand and the stored one, its total, and the bound."""
    found = [] if stored is None else [(evaluate_horizon(horizon, stored).total_ns, stored)]
    for pair in OFFLINE_PAIRS:
        plan, _ = plan_pair(horizon, pair, limits=Limits(), seed=0)
        found.append((evaluate_horizon(horizon, plan).total_ns, plan))
    best_ns, best = min(found, key=lambda pair: pair[0])
    # Without times: the same sources give the same files.
    plans = tuple(replace(step, info=replace(step.info, time_ns=None)) for step in best.plans)
    bound_ns = horizon_bound(horizon)[0]
    meets = best_ns == bound_ns
    bounds = Bounds(
        optimum_ns=bound_ns if meets else None,
        optimum_by=f"{best.method} reaches the bound of {BY_FLOWS}" if meets else None,
        lower_bound_ns=bound_ns,
        lower_bound_by=BY_FLOWS,
    )
    return replace(best, plans=plans), best_ns, bounds


def best_plan(instance: Instance, stored: Plan | None, *, proved: bool) -> tuple[Plan, int, Bounds]:
    """Return the best plan of all methods and the stored one, its makespan and what is proved.

    With ``proved`` the optimum must be proved by CP-SAT alone.
    """
    names = [name for name in methods() if name not in EXACT_METHODS]
    # The stored plan first: of equally good ones it stays.
    found = [] if stored is None else [(makespan_ns(instance, stored), stored)]
    for name in names:
        try:
            found.append(_solved(instance, name, 0))
        except UnsuitableInstanceError:
            continue  # cpu-only where the host cannot compute, for example
    best_ns, best = min(found, key=lambda pair: pair[0])
    bound_ns, bound_by = lower_bound(instance, upper_ns=best_ns), BY_BOUND
    if best_ns != bound_ns:
        found = [(best_ns, best)]
        found += [_solved(instance, LeadDp(q_grid=4), seed) for seed in SEEDS]
        best_ns, best = min(found, key=lambda pair: pair[0])
    if best_ns > bound_ns * (1 + OPEN):
        result = solve(instance, method="cp-sat-table", seed=0, limits=TABLE_LIMITS, hint=best)
        if result.plan is not None and result.makespan_ns is not None and result.makespan_ns < best_ns:
            best_ns, best = result.makespan_ns, result.plan
    active = int((instance.demand.counts > 0).sum())
    optimum_by = f"{best.info.method} reaches the bound of {bound_by}"
    if proved or (best_ns != bound_ns and active <= EXACT_UP_TO_EXPERTS):
        proof = prove(instance, best)
        while proof.makespan_ns < best_ns:
            best_ns, best = proof.makespan_ns, _by_cp_sat(proof.plan, proof.makespan_ns)
            proof = prove(instance, best)
        if proved and not proof.optimal:
            raise ValueError(f"expected CP-SAT to prove {instance.name} within {PROOF_TIME}, got a gap")
        if proof.lower_bound_ns > bound_ns or proof.optimal:
            bound_ns, bound_by = proof.lower_bound_ns, BY_CP_SAT
            optimum_by = BY_CP_SAT
    bounds = Bounds(
        optimum_ns=bound_ns if best_ns == bound_ns else None,
        optimum_by=optimum_by if best_ns == bound_ns else None,
        lower_bound_ns=bound_ns,
        lower_bound_by=bound_by,
    )
    return replace(best, info=replace(best.info, time_ns=None, lower_bound_ns=bound_ns)), best_ns, bounds


def _solved(instance: Instance, method: str | LeadDp, seed: int) -> tuple[int, Plan]:
    result = solve(instance, method=method, seed=seed)
    if result.plan is None or result.makespan_ns is None:
        raise ValueError(f"expected a plan for {instance.name} from {method}, got none")
    return result.makespan_ns, result.plan


def _by_cp_sat(plan: Plan, reached_ns: int) -> Plan:
    info = replace(
        plan.info,
        method="cp-sat",
        parameters=(("deterministic_time", f"{PROOF_TIME:g}"),),
        seed=0,
        makespan_ns=reached_ns,
    )
    return replace(plan, info=info)
