"""Gate-by-gate control where every missing expert must come in and rows keep what they hold across steps."""

from __future__ import annotations

import numpy as np

from prescope.formulation import CostModel, Demand, Instance, LayerPlan, Plan, PlanInfo, Tier, Transfer
from prescope.formulation.demand import FloatArray, IntArray
from prescope.runtime.control.pool import Key, RowPool
from prescope.runtime.control.pooled_guard import GONE, RESTING, SPARED, trust_reads
from prescope.runtime.control.prediction_lane import Forecaster, PredictionLane
from prescope.runtime.control.read_rules import read_rules
from prescope.runtime.control.tables import CostTables
from prescope.runtime.control.wave import Wave
from prescope.solver.online import GatePolicy, GateState, LayerForecast
from prescope.solver.online.reads import plan_reads


class PooledStep:
    """Controls one step over a pool of rows.

    Policy ``expected`` plans its reads by `prescope.solver.online.reads`, as the link has all missing experts
    to read here; every other policy decides as anywhere else, and only what is likely enough is read ahead.

    Parameters
    ----------
    costs, tables
        Durations; ``tables`` is the tabulated form, shared between steps.
    pool
        Rows and their contents, kept between steps.
    lookahead
        How many layers ahead copies may be issued.
    policy
        Decides what is prefetched.
    forecast
        ``forecast(layer, horizon)`` as `prescope.predictor.Predictor.predict`.
    tokens
        Real tokens of the step.
    experts
        Experts per layer.
    prediction_ns
        As for `prescope.formulation.Instance`.
    reach
        Farthest horizon that ``forecast`` can answer; ``None`` is any.
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
    ) -> None:
        self._costs, self._tables, self._pool = costs, tables, pool
        self._lookahead, self._policy = lookahead, policy
        self._rules = read_rules(policy)
        ahead = policy.horizon(lookahead if reach is None else min(lookahead, reach))
        self._forecasts = PredictionLane(forecast, layers=costs.layers, experts=experts, reach=ahead)
        self._prediction_ns = prediction_ns
        self._tokens = tokens
        self._link_ns = 0
        self._layer_end_ns = 0
        self._host_free_ns = 0
        self._promise_ns: dict[Key, float] = {}
        self._displaced: dict[Key, Key] = {}
        self._watched_ns: dict[Key, int] = {}
        self._arrival_ns: dict[Key, int] = {}
        self._counts = np.zeros((costs.layers, experts), dtype=np.int64)
        self._likely = np.zeros((costs.layers, experts))
        self._held: list[tuple[int, ...]] = []
        self._layers: list[LayerPlan] = []
        self._transfers: list[Transfer] = []

    @property
    def link_ready_ns(self) -> int:
        """Always 0: a step on this tier ends with its copies."""
        return 0

    def start(self) -> Wave:
        """Issue what the forecasts of the first layers ask for before the first gate."""
        state = self._state(-1, np.zeros(self._counts.shape[1], dtype=np.int64), 0)
        wishes = self._policy.decide(state).prefetch if state.future else ()
        return Wave(layer=-1, plan=LayerPlan(), copies=self._prefetch(state, wishes, 0, self._dense_ns(0)))

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
        self._pool.residency.observe(layer, counts)
        gate_ns = self._layer_end_ns + self._dense_ns(layer)
        copied = {expert for owner, expert in self._arrival_ns if owner == layer}
        self._held.append(tuple(sorted(set(self._pool.experts_of(layer)) - copied)))
        state = self._state(layer, counts, gate_ns)
        decision = self._policy.decide(state)
        if self._rules.guard:
            self._settle(layer, gate_ns)
        copies = self._run_layer(layer, decision.gpu, gate_ns)
        next_gate_ns = self._layer_end_ns
        if layer + 1 < self._costs.layers:
            next_gate_ns += self._dense_ns(layer + 1)
        copies += self._prefetch(state, decision.prefetch, gate_ns, next_gate_ns)
        plan = LayerPlan(gpu=decision.gpu)
        self._layers.append(plan)
        prediction_ns = self._prediction_of(layer)
        predict = self._forecasts.announce(layer, self._host_free_ns) if prediction_ns else None
        return Wave(layer=layer, plan=plan, copies=copies, prediction_ns=prediction_ns, predict=predict)

    def finish(self, predictor: str | None = None) -> tuple[Instance, Plan]:
        """The decided step: what the pool held counts as resident, its rows as slots."""
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
            info=PlanInfo(method=self._policy.name, makespan_ns=self._layer_end_ns),
        )
        return instance, plan

    def _prediction_of(self, layer: int) -> int:
        return self._prediction_ns[layer] if self._prediction_ns else 0

    def _dense_ns(self, layer: int) -> int:
        return self._costs.dense_ns(layer, self._tokens)

    def _state(self, layer: int, counts: IntArray, gate_ns: int) -> GateState:
        arrival_ns = np.full(counts.shape[0], -1, dtype=np.int64)
        if layer >= 0:
            for expert in self._pool.experts_of(layer):
                arrival_ns[expert] = max(0, self._arrival_ns.get((layer, expert), 0) - gate_ns)
        rows = len(self._pool)
        return GateState(
            layer=layer,
            gpu_ns=self._tables.gpu_ns(layer, counts),
            cpu_ns=np.zeros_like(counts),
            active=counts > 0,
            arrival_ns=arrival_ns,
            copy_ns=self._costs.copy_ns(max(layer, 0)),
            link_free_ns=max(0, self._link_ns - gate_ns),
            usable_slots=rows,
            # One row always stays with the layer at hand.
            free_slots=max(0, rows - 1 - len(self._waiting(layer))),
            host_computes=False,
            future=self._future(layer, gate_ns),
        )

    def _future(self, layer: int, gate_ns: int) -> tuple[LayerForecast, ...]:
        if layer < 0 or not self._prediction_of(layer):
            self._forecasts.now(layer)
        forecasts = []
        worthwhile = False
        for target, forecast in enumerate(self._forecasts.at(layer, gate_ns), start=layer + 1):
            self._likely[target] = forecast.probability
            held = np.zeros(self._counts.shape[1], dtype=np.bool_)
            held[self._pool.experts_of(target)] = True
            worthwhile |= bool((forecast.probability[~held] >= self._rules.least).any())
            copy_ns = self._costs.copy_ns(target)
            gpu_ns, _ = self._tables.expected_ns(target, forecast, batch_tokens=self._tokens)
            forecasts.append(
                LayerForecast(
                    # What is not brought ahead costs its copy later, and then its computation all the same.
                    cpu_ns=forecast.probability * copy_ns + gpu_ns,
                    gpu_ns=gpu_ns,
                    probability=forecast.probability,
                    held=held,
                    dense_ns=self._dense_ns(target),
                    copy_ns=copy_ns,
                )
            )
        # Without an expert worth bringing there is nothing to weigh.
        return tuple(forecasts) if worthwhile else ()

    def _waiting(self, layer: int) -> set[Key]:
        """Copies of this step whose layer is still to come."""
        return {key for key in self._arrival_ns if key[0] > layer}

    def _scores(self, layer: int) -> FloatArray:
        """Worth of every expert's row: its residency's, and above all when a coming layer likely needs it."""
        scores = self._pool.residency.scores(layer).copy()
        coming = slice(layer + 1, layer + 1 + self._lookahead)
        # A likely use ahead counts as if the layer were next and the expert certain, weighted by likelihood.
        top = float(scores.max())
        scores[coming] = np.maximum(
            scores[coming], scores[coming] + self._likely[coming] * (top - scores[coming])
        )
        return scores

    def _run_layer(self, layer: int, gpu: tuple[int, ...], gate_ns: int) -> tuple[Transfer, ...]:
        """Advance the clock over the layer's computations; returns its on-demand copies."""
        times = self._tables.gpu_ns(layer, self._counts[layer])
        scores = self._scores(layer)
        barred = self._waiting(layer) | {(layer, expert) for expert in gpu}
        computed_ns: dict[Key, int] = {}
        copies: list[Transfer] = []
        gpu_ns = gate_ns
        for expert in gpu:
            key = (layer, expert)
            if self._pool.row_of(key) is None:
                # Rows that the link need not wait for first, then any whose expert is done with.
                free_ns = max(self._link_ns, gate_ns)
                done = {key for key, end_ns in computed_ns.items() if end_ns <= free_ns}
                row = self._pool.victim(layer, scores, barred - done)
                if row is None:
                    row = self._pool.victim(layer, scores, barred - computed_ns.keys())
                if row is None:
                    raise ValueError(
                        f"expected a row for layer {layer} expert {expert}, got all {len(self._pool)} in use"
                    )
                ready_ns = computed_ns.get(self._pool.owner(row) or key, 0)
                copies.append(self._copy(key, row, layer, max(gate_ns, ready_ns)))
            gpu_ns = max(gpu_ns, self._arrival_ns.get(key, 0)) + int(times[expert])
            computed_ns[key] = gpu_ns
        self._layer_end_ns = gpu_ns
        self._host_free_ns = max(gate_ns, self._host_free_ns) + self._prediction_of(layer)
        if layer + 1 == self._costs.layers:
            # A step is over when its last prediction is.
            self._layer_end_ns = max(self._layer_end_ns, self._host_free_ns)
        return tuple(copies)

    def _prefetch(
        self, state: GateState, wishes: tuple[tuple[int, int], ...], gate_ns: int, next_gate_ns: int
    ) -> tuple[Transfer, ...]:
        layer = state.layer
        if self._rules.planned:
            wishes = self._planned(state) if state.future else ()
        resting = self._rules.guard > 0.0 and bool(self._pool.trust_ns[RESTING])
        room = len(self._pool) - len(self._waiting(layer))
        copies: list[Transfer] = []
        scores = self._scores(layer)
        current = {(layer, expert) for expert in (self._layers_gpu(layer))}
        link_ns = max(self._link_ns, gate_ns)
        for ahead, expert in wishes:
            key = (layer + ahead, expert)
            if self._likely[key] < self._rules.least:
                continue
            if link_ns >= next_gate_ns:
                break
            # Rows of the running layer are left alone: they may still be read when the copy starts.
            barred = self._waiting(layer) | current
            if room < 2:
                break
            row = self._pool.victim(key[0], scores, barred, below=float(scores[key]))
            if row is None:
                continue
            displaced = self._pool.owner(row)
            if displaced is not None:
                self._displaced[key] = displaced
            self._promise_ns[key] = float(self._likely[key]) * self._costs.copy_ns(key[0])
            room -= 1
            if resting:
                # Wishes are watched, not granted; the next one would displace somebody else.
                self._watched_ns[key] = link_ns = link_ns + self._costs.copy_ns(key[0])
                if displaced is not None:
                    scores[displaced] = np.inf
                continue
            copies.append(self._copy(key, row, layer, gate_ns))
            link_ns = self._link_ns
        return tuple(copies)

    def _planned(self, state: GateState) -> tuple[tuple[int, int], ...]:
        """Reads ahead of policy ``expected`` once the layer's own are under way."""
        future = state.future
        room = len(future) * self._counts.shape[1]
        ahead, experts = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        found = plan_reads(
            np.array([layer.probability for layer in future], dtype=np.float64),
            np.array([layer.gpu_ns for layer in future], dtype=np.float64),
            np.array([layer.held for layer in future], dtype=np.bool_),
            np.array([layer.dense_ns for layer in future], dtype=np.int64),
            np.array([layer.copy_ns for layer in future], dtype=np.int64),
            float(self._layer_end_ns - self._link_ns),
            max(0, len(self._pool) - 1 - len(self._waiting(state.layer))),
            self._rules.spread,
            self._rules.least,
            ahead,
            experts,
        )
        return tuple(zip(ahead[:found].tolist(), experts[:found].tolist(), strict=True))

    def _settle(self, layer: int, gate_ns: int) -> None:
        """Compare what reads ahead of the layer promised with what they save, or would have."""
        copy_ns = self._costs.copy_ns(layer)
        pool, late_ns = self._pool, max(0, self._link_ns - gate_ns)
        promised = kept = 0.0
        in_vain = missing = False
        for expert, count in enumerate(self._counts[layer].tolist()):
            key = (layer, expert)
            promise_ns = self._promise_ns.get(key, 0.0)
            arrival_ns = self._arrival_ns.get(key)
            held, made = pool.row_of(key) is not None, arrival_ns is not None
            if promise_ns > 0.0 and (made or not held):
                promised += promise_ns
                comes_ns = self._watched_ns[key] if arrival_ns is None else arrival_ns
                if count:
                    kept += copy_ns - max(0, comes_ns - gate_ns)
                else:
                    in_vain |= made and comes_ns > gate_ns
                    displaced = self._displaced.get(key)
                    if displaced is not None:
                        pool.pushed_out[displaced] = GONE if made else SPARED
            if count:
                missing |= not held
                if pool.pushed_out[key] == (SPARED if held else GONE):
                    kept -= copy_ns
            pool.pushed_out[key] = 0
        if in_vain and missing:
            kept -= late_ns
        trust_reads(pool.trust_ns, promised, kept, copy_ns, self._rules.guard)

    def _layers_gpu(self, layer: int) -> IntArray:
        return self._counts[layer].nonzero()[0] if layer >= 0 else np.zeros(0, dtype=np.int64)

    def _copy(self, key: Key, row: int, gate: int, ready_ns: int) -> Transfer:
        self._link_ns = max(self._link_ns, ready_ns) + self._costs.copy_ns(key[0])
        self._pool.put(row, key)
        self._arrival_ns[key] = self._link_ns
        transfer = Transfer(layer=key[0], expert=key[1], slot=row, gate=gate)
        self._transfers.append(transfer)
        return transfer
