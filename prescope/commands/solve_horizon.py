"""``prescope solve`` on a horizon: plan every step, and say who is resident in each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prescope.commands.output import console, print_json, working

if TYPE_CHECKING:
    from prescope.instances import HorizonFile
    from prescope.solver import Limits


def solve_horizon(
    file: HorizonFile, method: str, output: Path | None, seed: int, limits: Limits, as_json: bool
) -> None:
    """Plan a horizon by a rule and a planner and print what came of it.

    Raises
    ------
    ValueError
        When the method is no RULE+PLANNER, or the horizon lacks what it needs.
    """
    from prescope.bench.pairs import check_pair, plan_pair
    from prescope.bench.planning import Replan, warm_up
    from prescope.formulation import format_bytes, format_ns
    from prescope.formulation.horizon_evaluator import evaluate_horizon
    from prescope.instances import write_horizon_plan
    from prescope.report import pairs_table
    from prescope.solver import UnsuitableInstanceError
    from prescope.solver.residency import horizon_bound

    horizon = file.horizon
    check_pair(method)
    with working(f"{method} on {horizon.name}"):
        warm_up(method, horizon, Replan.GATES)
        try:
            plan, time_ns = plan_pair(horizon, method, limits=limits, seed=seed)
        except UnsuitableInstanceError as error:
            raise ValueError(str(error)) from error
        steps = evaluate_horizon(horizon, plan)
        bound_ns = file.bounds.lower_bound_ns
        if bound_ns is None:
            bound_ns = horizon_bound(horizon)[0]
    gap = (steps.total_ns - bound_ns) / max(bound_ns, 1)
    if output is not None:
        write_horizon_plan(output, plan, horizon)
    if as_json:
        print_json(
            {
                "horizon": horizon.name,
                "method": method,
                "seed": seed,
                "steps": horizon.steps,
                "total_ns": steps.total_ns,
                "step_ns": list(steps.step_ns),
                "lower_bound_ns": bound_ns,
                "gap": gap,
                "hits": steps.hits,
                "uses": steps.uses,
                "copied_bytes": steps.copied_bytes,
                "time_ns": time_ns,
                "plan_path": None if output is None else str(output),
            }
        )
        return
    rows = [
        ("horizon", horizon.name),
        ("method", method),
        ("steps", str(horizon.steps)),
        ("lower bound", format_ns(bound_ns)),
        ("total", format_ns(steps.total_ns)),
        ("gap", f"{gap:.3%}"),
        ("mean step", format_ns(round(steps.total_ns / horizon.steps))),
        ("hit rate", f"{steps.hits / max(1, steps.uses):.1%} of {steps.uses} uses"),
        ("copied", format_bytes(steps.copied_bytes)),
        ("planned in", format_ns(time_ns)),
    ]
    if output is not None:
        rows += [("plan", str(output))]
    console().print(pairs_table(rows))
