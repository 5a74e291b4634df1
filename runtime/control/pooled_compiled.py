"""Control over a pool of rows by a policy that runs compiled: forecasts in, one call, a wave out."""

from __future__ import annotations

import numpy as np

from prescope.formulation import CostModel, Demand, Instance, LayerPlan, Plan, PlanInfo, Tier, Transfer
from prescope.formulation.demand import IntArray
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.pooled import PooledStep
from prescope.runtime.control.pooled_gate import run_pooled_gate
from prescope.runtime.control.pooled_site import PoolSite, new_pool_state
from prescope.runtime.control.prediction_lane import Forecaster, PredictionLane
from prescope.runtime.control.read_rules import ReadRules, read_rules
from prescope.runtime.control.step_state import HOST_FREE, LAYER_END, NEVER
from prescope.runtime.control.tables import CostTables
from prescope.runtime.control.wave import StepControl, Wave
from prescope.solver.online import GatePolicy, policy_code


class CompiledPooledStep:
    """Controls one step as `PooledStep` does, to the nanosecond, in a fraction of the time.

    Parameters
    ----------
    costs, tables, pool, lookahead, forecast, tokens, experts, prediction_ns, reach
        As for `PooledStep`.
    policy
        With a compiled form, see `prescope.solver.online.policy_code`.
    rules
        How it reads ahead; by default as of `prescope.runtime.control.read_rules.read_rules`.

    Raises
    ------
    ValueError
        When the policy has no compiled form.
    """

    def __init__(
        self,
        *,
        costs: CostModel,
        tables: CostTables,
        pool: RowPool,
        lookahead: int,
        policy: GatePolicy,
        forecast: Forecaster,
        tokens: int,
        experts: int,
        prediction_ns: tuple[int, ...] = (),
        reach: int | None = None,
        rules: ReadRules | None = None,
    ) -> None:
        code = policy_code(policy)
        if code is None:
            raise ValueError(f"expected a policy with a compiled form, got {policy.name!r}")
        rules = rules or read_rules(policy)
        self._costs, self._tables, self._pool = costs, tables, pool
        self._lookahead, self._name, self._rules = lookahead, policy.name, rules
        self._code = code._replace(spread=rules.spread)
        self._tokens, self._prediction_ns = tokens, prediction_ns
        ahead = policy.horizon(lookahead if reach is None else min(lookahead, reach))
        self._forecasts = PredictionLane(forecast, layers=costs.layers, experts=experts, reach=ahead)
        self._state = new_pool_state(pool, ahead=ahead)
        self._site = self._make_site(tokens)
        self._counts = np.zeros((costs.layers, experts), dtype=np.int64)
        self._held: list[tuple[int, ...]] = []
        self._layers: list[LayerPlan] = []
        self._transfers: list[Transfer] = []

    @property
    def link_ready_ns(self) -> int:
        """Always 0: a step on this tier ends with its copies."""
        return 0

    def start(self) -> Wave:
        """Issue what the forecasts of the first layers ask for before the first gate."""
        copies = self._run(-1, np.zeros(self._counts.shape[1], dtype=np.int64), 0)
        return Wave(layer=-1, plan=LayerPlan(), copies=copies)

    def gate(self, layer: int, counts: IntArray) -> Wave:
        """Decide ``layer``, the next one in order, from its true counts.

        Raises
        ------
        ValueError
            When the layer is out of order.
        """
        if layer != len(self._layers):
            raise ValueError(f"expected the gate of layer {len(self._layers)}, got {layer}")
        self._counts[layer] = counts
        most = int(counts.max())
        if most + 2 > self._site.gpu_ns.shape[1]:
            self._site = self._make_site(most)
        self._pool.residency.observe(layer, counts)
        state = self._state
        held = (state.places[layer] != NEVER) & (state.arrival_ns[layer] == NEVER)
        self._held.append(tuple(np.flatnonzero(held).tolist()))
        gate_ns = int(state.clock[LAYER_END] + self._site.dense_ns[layer])
        copies = self._run(layer, self._counts[layer], gate_ns)
        plan = LayerPlan(gpu=tuple(state.answer.gpu[: state.counters[1]].tolist()))
        self._layers.append(plan)
        prediction_ns = self._prediction_ns[layer] if self._prediction_ns else 0
        predict = self._forecasts.announce(layer, int(state.clock[HOST_FREE])) if prediction_ns else None
        return Wave(layer=layer, plan=plan, copies=copies, prediction_ns=prediction_ns, predict=predict)

    def finish(self, predictor: str | None = None) -> tuple[Instance, Plan]:
        """The decided step; see `PooledStep.finish`."""
        instance = Instance(
            name="step",
            costs=self._costs,
            demand=Demand(counts=self._counts, batch_tokens=max(self._tokens, int(self._counts.max()))),
            residents=tuple(self._held),
            slots=len(self._pool),
            lookahead=self._lookahead,
            tier=Tier.DISK,
            host_computes=False,
            prediction_ns=self._prediction_ns,
        )
        plan = Plan(
            layers=tuple(self._layers),
            transfers=tuple(self._transfers),
            info=PlanInfo(method=self._name, makespan_ns=int(self._state.clock[LAYER_END])),
        )
        return instance, plan

    def _make_site(self, tokens: int) -> PoolSite:
        dense_ns, copy_ns = self._tables.layers(self._tokens)
        quota = self._pool.residency.quota(len(self._pool))
        prediction_ns = self._prediction_ns or (0,) * self._costs.layers
        return PoolSite(
            dense_ns=dense_ns,
            copy_ns=copy_ns,
            prediction_ns=np.array(prediction_ns, dtype=np.int64),
            gpu_ns=self._tables.arrays(tokens + 2)[0],
            tokens=self._tokens,
            lookahead=self._lookahead,
            quota=-1 if quota is None else quota,
            least=self._rules.least,
            guard=self._rules.guard,
        )

    def _run(self, layer: int, counts: IntArray, gate_ns: int) -> tuple[Transfer, ...]:
        state = self._state
        if layer < 0 or not (self._prediction_ns and self._prediction_ns[layer]):
            self._forecasts.now(layer)
        forecasts = self._forecasts.at(layer, gate_ns)
        for ahead, forecast in enumerate(forecasts):
            state.likely[layer + 1 + ahead] = forecast.probability
            state.tokens[ahead] = forecast.expected_tokens
        done = int(state.counters[0])
        # A copy: likely uses ahead are written into it.
        scores = np.array(self._pool.residency.scores(layer), dtype=np.float64)
        run_pooled_gate(self._site, state, layer, counts, len(forecasts), self._code, scores)
        copies = tuple(
            Transfer(layer=target, expert=expert, slot=row, gate=gate)
            for target, expert, row, gate in state.copies[done : state.counters[0]].tolist()
        )
        self._transfers.extend(copies)
        return copies


def pooled_step(
    *,
    costs: CostModel,
    tables: CostTables,
    pool: RowPool,
    lookahead: int,
    policy: GatePolicy,
    forecast: Forecaster,
    tokens: int,
    experts: int,
    prediction_ns: tuple[int, ...] = (),
    reach: int | None = None,
) -> StepControl:
    """Control of one step over a pool: compiled where the policy can, else as it is.

    The parameters are those of `PooledStep`.
    """
    kind = PooledStep if policy_code(policy) is None else CompiledPooledStep
    return kind(
        costs=costs,
        tables=tables,
        pool=pool,
        lookahead=lookahead,
        policy=policy,
        forecast=forecast,
        tokens=tokens,
        experts=experts,
        prediction_ns=prediction_ns,
        reach=reach,
    )
