"""Steps in a row on an imagined machine, decided gate by gate in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prescope.formulation import CostModel, Demand, Forecast, Instance, Tier, TimeCurve
from prescope.formulation.demand import FloatArray, IntArray
from prescope.instances.budget import divide_budget, residents_of_budget
from prescope.whatif.forecast import degraded
from prescope.whatif.point import Machine, Point, costs_at

# As the engine leaves for streaming where residents are fixed.
_SCRATCH = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """What steps came to.

    Parameters
    ----------
    times_ns
        Duration of every step, int64 ``[steps]``.
    copied_bytes
        Over the link for every step, int64 ``[steps]``.
    """

    times_ns: IntArray
    copied_bytes: IntArray


def simulate(
    machine: Machine,
    point: Point,
    counts: IntArray,
    shares: FloatArray,
    *,
    lookahead: int,
    overhead_ns: int = 0,
    seed: int = 0,
    policy: str = "expected",
    residency: str = "moving-average",
) -> Steps:
    """Run steps one after the other.

    Parameters
    ----------
    machine, point
        What there is and what is imagined.
    counts
        Tokens of each step, int64 ``[steps, layers, experts]``; ``point.batch`` is the tokens of a step.
    shares
        Popularity of the experts, ``[layers, experts]``.
    lookahead
        Layers ahead that copies may be issued and forecasts reach.
    overhead_ns
        See `prescope.whatif.costs_at`.
    seed
        Of the predictor's mistakes.
    policy
        A gate policy; without a predictor only the layer at hand is decided, as `intra-layer` does.
    residency
        For experts on disk: the rule by which they stay in memory.

    Raises
    ------
    ValueError
        When the memory is too small for one expert.
    """
    costs = costs_at(machine, point, overhead_ns=overhead_ns)
    if machine.tier is Tier.DISK:
        return _from_disk(costs, point, counts, shares, lookahead, seed, policy, residency)
    return _from_memory(costs, machine, point, counts, shares, lookahead, seed, policy)


def _from_memory(
    costs: CostModel,
    machine: Machine,
    point: Point,
    counts: IntArray,
    shares: FloatArray,
    lookahead: int,
    seed: int,
    policy: str,
) -> Steps:
    """Pinned residents and slots, experts in place on the host: the compiled rollout."""
    from prescope.runtime.control.rollout import roll_out, site_of
    from prescope.solver.online import make_gate_policy, policy_code

    steps, layers, experts = counts.shape
    pinned, slots = divide_budget(
        point.memory_bytes, row_bytes=max(costs.expert_bytes), layers=layers, experts=experts, slots=None
    )
    flat = counts.reshape(steps * layers, experts)
    instance = Instance(
        name="what if",
        costs=_repeated(costs, steps),
        demand=Demand(counts=flat, batch_tokens=point.batch),
        residents=residents_of_budget(shares, pinned) * steps,
        slots=slots,
        lookahead=lookahead,
        tier=machine.tier,
        host_computes=machine.host_computes,
    )
    chosen = make_gate_policy("intra-layer" if point.recall is None else policy)
    code = policy_code(chosen)
    if code is None:
        raise ValueError(f"expected a policy with a compiled form, got {chosen.name!r}")
    if point.recall is None or lookahead == 0:
        probabilities = tokens = np.zeros((1, *flat.shape))
    else:
        probabilities, tokens = degraded(
            flat, shares, batch=point.batch, recall=point.recall, horizons=lookahead, seed=seed
        )
    rolled = roll_out(
        site_of(instance),
        slots=slots,
        counts=flat,
        probabilities=probabilities,
        expected_tokens=tokens,
        code=code,
    )
    ends = rolled.layer_end_ns[layers - 1 :: layers]
    sizes = np.array(costs.expert_bytes, dtype=np.int64)
    copied = np.zeros(steps, dtype=np.int64)
    np.add.at(copied, rolled.copies[:, 0] // layers, sizes[rolled.copies[:, 0] % layers])
    return Steps(times_ns=np.diff(ends, prepend=0), copied_bytes=copied)


def _from_disk(
    costs: CostModel,
    point: Point,
    counts: IntArray,
    shares: FloatArray,
    lookahead: int,
    seed: int,
    policy: str,
    residency: str,
) -> Steps:
    """One pool of rows whose contents outlive the steps; every missing expert is read."""
    from prescope.runtime.control.pool import RowPool
    from prescope.runtime.control.pooled_compiled import pooled_step
    from prescope.runtime.control.residency import make_residency
    from prescope.runtime.control.tables import CostTables
    from prescope.solver.online import make_gate_policy

    steps, layers, experts = counts.shape
    row_bytes = max(costs.expert_bytes)
    rows = min(point.memory_bytes // row_bytes, layers * experts)
    if rows < 1:
        raise ValueError(
            f"expected memory of at least {row_bytes} bytes, which is one expert, got {point.memory_bytes}"
        )
    scratch = max(1, min(_SCRATCH, rows // 4))
    pool = RowPool(rows, make_residency(residency, shares, rows=rows, scratch=scratch))
    chosen = make_gate_policy("on-demand" if point.recall is None else policy)
    tables = CostTables(costs)
    flat = counts.reshape(steps * layers, experts)
    said = None
    if point.recall is not None and lookahead > 0:
        said = degraded(flat, shares, batch=point.batch, recall=point.recall, horizons=lookahead, seed=seed)
    times = np.zeros(steps, dtype=np.int64)
    copied = np.zeros(steps, dtype=np.int64)
    for step in range(steps):
        first = step * layers

        def forecast(layer: int, horizon: int, first: int = first) -> Forecast:
            if said is None:
                return Forecast(expected_tokens=np.zeros(experts), probability=np.zeros(experts))
            entry = horizon - 1, first + layer + horizon
            return Forecast(expected_tokens=said[1][entry], probability=said[0][entry])

        control = pooled_step(
            costs=costs,
            tables=tables,
            pool=pool,
            lookahead=lookahead,
            policy=chosen,
            forecast=forecast,
            tokens=point.batch,
            experts=experts,
            reach=lookahead,
        )
        control.start()
        for layer in range(layers):
            control.gate(layer, counts[step, layer])
        _, plan = control.finish()
        times[step] = plan.info.makespan_ns or 0
        copied[step] = sum(costs.expert_bytes[copy.layer] for copy in plan.transfers)
    return Steps(times_ns=times, copied_bytes=copied)


def _repeated(costs: CostModel, steps: int) -> CostModel:
    """Costs of the layers of many steps in a row."""

    def curves(values: tuple[TimeCurve, ...]) -> tuple[TimeCurve, ...]:
        return values if len(values) == 1 else values * steps

    return replace(
        costs,
        expert_bytes=costs.expert_bytes * steps,
        gpu=curves(costs.gpu),
        cpu=curves(costs.cpu),
        dense=curves(costs.dense),
    )
