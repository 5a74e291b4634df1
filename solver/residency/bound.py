"""A lower bound on the time of a whole horizon, whatever is resident when."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from prescope.formulation.arrays import instance_arrays
from prescope.formulation.horizon import Horizon
from prescope.solver.residency.flow import Flow, Prices, ResidencyFlow
from prescope.solver.residency.uses import Uses, all_uses, by_size


def horizon_bound(horizon: Horizon, *, rounds: int = 12) -> tuple[int, Prices, list[tuple[Uses, Flow]]]:
    """Bound the total time of every plan of a horizon.

    A layer lasts at least its dense time and its work on the host, and as long as that and its work on the
    device; all layers last as long as the link works. So every weighted mean of the three is a bound, and for
    given weights a flow per size of experts finds the least work (places and slots count together, every
    size may use all slots, and copies may come at any time). The weights are improved by cutting planes.

    Parameters
    ----------
    rounds
        Flows per size at most.

    Returns
    -------
    bound_ns
        No plan's total is shorter.
    prices
        The weights that prove it.
    flows
        The assignments at those weights, per size of experts.
    """
    uses = all_uses(horizon)
    first = [
        layer * horizon.experts + expert for layer, row in enumerate(horizon.residents) for expert in row
    ]
    groups = []
    for size, part in by_size(horizon, uses):
        here = [key for key in first if horizon.costs.expert_bytes[key // horizon.experts] == size]
        groups.append(
            (
                part,
                ResidencyFlow(
                    part,
                    places=len(here) + horizon.slots,
                    first_keys=here,
                    host_computes=horizon.host_computes,
                ),
            )
        )
    dense_ns = sum(
        int(instance_arrays(horizon.instance(step, horizon.residents)).dense_ns.sum())
        for step in range(horizon.steps)
    )
    best_ns, best_prices, best_flows = -math.inf, None, []
    cuts: list[tuple[float, float, float]] = []
    prices = Prices(cpu=0.0, gpu=0.5, link=0.5)
    if horizon.host_computes:
        prices = Prices(cpu=1 / 3, gpu=1 / 3, link=1 / 3)
    for _ in range(rounds):
        flows = [(part, flow.solve(prices)) for part, flow in groups]
        bound_ns = (prices.cpu + prices.gpu) * dense_ns + sum(flow.cost_ns for _, flow in flows)
        if bound_ns > best_ns:
            best_ns, best_prices, best_flows = bound_ns, prices, flows
        cuts.append(
            (
                dense_ns + sum(flow.cpu_ns for _, flow in flows),
                dense_ns + sum(flow.gpu_ns for _, flow in flows),
                sum(flow.link_ns for _, flow in flows),
            )
        )
        prices, upper_ns = _best_prices(cuts, horizon.host_computes)
        if upper_ns <= best_ns * (1 + 1e-4):
            break
    assert best_prices is not None
    return max(0, math.floor(best_ns)), best_prices, best_flows


def _best_prices(cuts: list[tuple[float, float, float]], host_computes: bool) -> tuple[Prices, float]:
    """Weights whose worst known assignment is best: a linear programme in three variables."""
    from ortools.linear_solver import pywraplp

    factory: Any = pywraplp.Solver
    solver = factory.CreateSolver("GLOP")
    scale = max(max(cut) for cut in cuts) or 1.0
    cpu, gpu, link = (solver.NumVar(0, 1, name) for name in ("cpu", "gpu", "link"))
    value = solver.NumVar(0, solver.infinity(), "value")
    solver.Add(cpu + gpu + link == 1)
    if not host_computes:
        solver.Add(cpu == 0)
    for on_cpu, on_gpu, on_link in cuts:
        solver.Add(value <= cpu * (on_cpu / scale) + gpu * (on_gpu / scale) + link * (on_link / scale))
    solver.Maximize(value)
    solver.Solve()
    raw = np.clip([cpu.solution_value(), gpu.solution_value(), link.solution_value()], 0, 1)
    raw /= raw.sum()
    prices = Prices(cpu=float(raw[0]), gpu=float(raw[1]), link=max(0.0, float(1 - raw[0] - raw[1])))
    return prices, float(value.solution_value() * scale)
