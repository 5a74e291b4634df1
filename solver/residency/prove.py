"""Prove the bound of a saved horizon again."""

from __future__ import annotations

from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.instances import HorizonFile, HorizonPlanFile
from prescope.solver.residency.bound import horizon_bound

BY_FLOWS = "prescope.solver.residency.horizon_bound"
"""Name of the bound in a file's ``lower_bound_by``."""


def prove_horizon_bounds(file: HorizonFile, stored: HorizonPlanFile) -> str:
    """Prove a horizon's lower bound again.

    Parameters
    ----------
    file
        A horizon with bounds.
    stored
        Its best known plan.

    Returns
    -------
    str
        Who proved it.

    Raises
    ------
    ValueError
        When the file has no lower bound, names somebody else as its prover, less could be proved, or an
        optimum is claimed that plan and bound do not meet.
    """
    bounds = file.bounds
    if bounds.lower_bound_ns is None:
        raise ValueError("expected a lower bound, got none")
    if bounds.lower_bound_by != BY_FLOWS:
        raise ValueError(f"expected lower_bound_by to be {BY_FLOWS!r}, got {bounds.lower_bound_by!r}")
    found_ns = horizon_bound(file.horizon)[0]
    if found_ns < bounds.lower_bound_ns:
        raise ValueError(f"expected to prove {bounds.lower_bound_ns} ns by {BY_FLOWS}, got {found_ns} ns")
    total_ns = evaluate_horizon(file.horizon, stored.plan).total_ns
    if bounds.optimum_ns is not None and not bounds.optimum_ns == found_ns == total_ns:
        raise ValueError(
            f"expected an optimum where plan and bound meet, got optimum {bounds.optimum_ns}, "
            f"plan {total_ns} and bound {found_ns} ns"
        )
    return BY_FLOWS
