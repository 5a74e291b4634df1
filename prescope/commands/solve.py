"""``prescope solve``: plan one instance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def solve(
    instance: Annotated[
        str, typer.Argument(help="A file of an instance or a horizon, or the name of one in the library.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Plan file to write.")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Such as dp (the default), dp-fast, presched, cp-sat; `--method ?` lists all. For a horizon "
            "RULE+PLANNER, by default auto+dp-fast."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For methods that use chance.")] = 0,
    time_limit: Annotated[
        float | None, typer.Option(min=0.001, help="Seconds; by default the method's own limit.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Plan one instance: which experts run where, and when each copy starts.

    Of a horizon, plan every step, and say who is resident in each.
    """
    from prescope.commands.documents import plan_document
    from prescope.commands.output import console, print_json, working
    from prescope.commands.solve_horizon import solve_horizon
    from prescope.commands.sources import open_problem
    from prescope.formulation import format_ns
    from prescope.instances import HorizonFile, write_plan
    from prescope.report import pairs_table
    from prescope.solver import Limits
    from prescope.solver import solve as run_solver

    limits = None if time_limit is None else Limits(wall_ns=round(time_limit * 1e9))
    file = open_problem(instance)
    if isinstance(file, HorizonFile):
        solve_horizon(file, method or "auto+dp-fast", output, seed, limits or Limits(), as_json)
        return
    problem, method = file.instance, method or "dp"
    if "+" in method:
        raise ValueError(f"expected a horizon for the method {method!r}, got the instance {problem.name!r}")
    with working(f"{method} on {problem.name}"):
        _warm_up(method)
        result = run_solver(problem, method=method, seed=seed, limits=limits)
    if output is not None and result.plan is not None:
        write_plan(output, result.plan, problem)
    if as_json:
        print_json(
            {
                "instance": problem.name,
                "method": method,
                "seed": seed,
                "status": result.status.value,
                "makespan_ns": result.makespan_ns,
                "lower_bound_ns": result.lower_bound_ns,
                "gap": result.gap,
                "time_ns": result.time_ns,
                "plan": None if result.plan is None else plan_document(result.plan),
                "plan_path": None if output is None or result.plan is None else str(output),
            }
        )
    else:
        rows = [("instance", problem.name), ("method", method), ("status", result.status.value)]
        rows += [("lower bound", format_ns(result.lower_bound_ns))]
        if result.makespan_ns is not None and result.gap is not None:
            rows += [("makespan", format_ns(result.makespan_ns)), ("gap", f"{result.gap:.3%}")]
        rows += [("planned in", format_ns(result.time_ns))]
        if output is not None and result.plan is not None:
            rows += [("plan", str(output))]
        console().print(pairs_table(rows))
    if result.plan is None:
        raise typer.Exit(1)


def _warm_up(method: str) -> None:
    """Plan next to nothing first: loading compiled code is no part of the time to plan."""
    import numpy as np

    from prescope.formulation import CostModel, Demand, Instance, LinearTime, Link
    from prescope.solver import solve as run_solver

    time = LinearTime(fixed_ns=1)
    costs = CostModel(
        expert_bytes=(1, 1), link=Link(bytes_per_s=10**9), gpu=(time,), cpu=(time,), dense=(time,)
    )
    demand = Demand(counts=np.ones((2, 2), dtype=np.int64), batch_tokens=2)
    nothing = Instance(name="", costs=costs, demand=demand, residents=((0,), (0,)), slots=1, lookahead=2)
    run_solver(nothing, method=method)
