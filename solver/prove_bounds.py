"""Prove the bounds of a saved instance again, by whom its file says proved them."""

from __future__ import annotations

from prescope.formulation.evaluator import makespan_ns
from prescope.formulation.plan import Plan
from prescope.instances import InstanceFile
from prescope.solver.bound import lower_bound
from prescope.solver.proof import PROOF_TIME, prove

BY_BOUND = "prescope.solver.lower_bound"
"""Name of our own bound in a file's ``lower_bound_by``."""

BY_CP_SAT = f"CP-SAT, unrestricted model, 1 worker, seed 0, deterministic time {PROOF_TIME:g}"
"""Name of `prove` in a file's ``lower_bound_by`` and ``optimum_by``."""


def prove_bounds(file: InstanceFile, plan: Plan) -> str:
    """Prove a file's bounds again.

    Parameters
    ----------
    file
        An instance with bounds.
    plan
        The best known plan.

    Returns
    -------
    str
        Who proved them.

    Raises
    ------
    ValueError
        When the file has no lower bound, names somebody else as its prover, or less could be proved.
    """
    bounds, instance = file.bounds, file.instance
    best_ns = makespan_ns(instance, plan)
    if bounds.lower_bound_ns is None:
        raise ValueError("expected a lower bound, got none")
    if bounds.lower_bound_by == BY_CP_SAT:
        found_ns = prove(instance, plan).lower_bound_ns
    elif bounds.lower_bound_by == BY_BOUND:
        found_ns = lower_bound(instance, upper_ns=best_ns)
    else:
        raise ValueError(
            f"expected lower_bound_by to be {BY_BOUND!r} or {BY_CP_SAT!r}, got {bounds.lower_bound_by!r}"
        )
    if found_ns < bounds.lower_bound_ns:
        raise ValueError(
            f"expected to prove {bounds.lower_bound_ns} ns by {bounds.lower_bound_by}, got {found_ns} ns"
        )
    if (bounds.optimum_ns is not None or found_ns == best_ns) and not (
        bounds.optimum_ns == found_ns == best_ns
    ):
        raise ValueError(
            f"expected an optimum where plan and bound meet, got optimum {bounds.optimum_ns}, "
            f"plan {best_ns} and bound {found_ns} ns"
        )
    return str(bounds.lower_bound_by)
