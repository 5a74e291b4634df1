"""Gate-by-gate control of a step on a modelled clock.

Only copies that start before the next gate on that clock are issued; the rest of the wish is decided anew
there. So nothing ever has to be called back, and the realised plan is known exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prescope.formulation import CostModel, Demand, Instance, LayerPlan, Plan, PlanInfo, Tier, Transfer
from prescope.formulation.demand import IntArray
from prescope.runtime.control.prediction_lane import Forecaster, PredictionLane
from prescope.runtime.control.tables import CostTables
from prescope.runtime.control.wave import Wave
from prescope.solver.online import GateDecision, GatePolicy, GateState, LayerForecast
from prescope.solver.online.overlap import worth_overlap


class OnlineStep:
    """Controls one step with a gate policy.

    Parameters
    ----------
    costs, tables
        Durations; ``tables`` is the tabulated form, shared between steps.
    resident
        Pinned experts, bool ``[layers, experts]``.
    slots, lookahead, tier, host_computes
        As for `prescope.formulation.Instance`.
    policy
        Decides at the gates.
    forecast
        ``forecast(layer, horizon)`` as `prescope.predictor.Predictor.predict`.
    tokens
        Real tokens of the step.
    link_ready_ns
        The link is busy with the last step's copy until then.
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
        resident: npt.NDArray[np.bool_],
        slots: int,
        lookahead: int,
        policy: GatePolicy,
        forecast: Forecaster,
        tokens: int,
        tier: Tier = Tier.RAM,
        host_computes: bool = True,
        link_ready_ns: int = 0,
        prediction_ns: tuple[int, ...] = (),
        reach: int | None = None,
    ) -> None:
        self._costs, self._tables, self._resident = costs, tables, resident
        self._lookahead, self._policy = lookahead, policy
        self._reach = policy.horizon(lookahead if reach is None else min(lookahead, reach))
        layers, experts = resident.shape
        self._forecasts = PredictionLane(forecast, layers=layers, experts=experts, reach=self._reach)
        self._tokens, self._tier, self._host_computes = tokens, tier, host_computes
        self._entry_link_ns = link_ready_ns
        self._link_ns = link_ready_ns
        self._prediction_ns = prediction_ns
        self._layer_end_ns = 0
        self._host_free_ns = 0
        # Per slot: when it is free, or None while its copy waits for a later layer.
        self._slot_free_ns: list[int | None] = [0] * slots
        self._landed: dict[tuple[int, int], tuple[int, int]] = {}
        self._arrival_ns: dict[tuple[int, int], int] = {}
        self._counts = np.zeros(resident.shape, dtype=np.int64)
        self._layers: list[LayerPlan] = []
        self._transfers: list[Transfer] = []

    def start(self) -> Wave:
        """Issue what the forecasts of the first layers ask for before the first gate."""
        state = self._state(-1, np.zeros(self._resident.shape[1], dtype=np.int64), 0)
        decision = self._policy.decide(state) if state.future else GateDecision(gpu=(), cpu=())
        copies = self._prefetch(state, decision, 0, self._dense_ns(0))
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
        gate_ns = self._layer_end_ns + self._dense_ns(layer)
        state = self._state(layer, counts, gate_ns)
        decision = self._policy.decide(state)
        copies = self._run_layer(layer, decision, gate_ns)
        next_gate_ns = self._layer_end_ns
        if layer + 1 < self._resident.shape[0]:
            next_gate_ns += self._dense_ns(layer + 1)
        brought = tuple(
            expert
            for (owner, expert), end_ns in self._arrival_ns.items()
            if owner == layer and end_ns <= self._layer_end_ns
        )
        copies += self._prefetch(state, decision, gate_ns, next_gate_ns)
        plan = LayerPlan(gpu=decision.gpu, cpu=decision.cpu)
        self._layers.append(plan)
        prediction_ns = self._prediction_of(layer)
        predict = self._forecasts.announce(layer, self._host_free_ns) if prediction_ns else None
        return Wave(
            layer=layer,
            plan=plan,
            copies=copies,
            brought=tuple(sorted(brought)),
            prediction_ns=prediction_ns,
            predict=predict,
        )

    def finish(self, predictor: str | None = None) -> tuple[Instance, Plan]:
        """See `StepControl.finish`."""
        instance = Instance(
            name="step",
            costs=self._costs,
            demand=Demand(counts=self._counts, batch_tokens=max(self._tokens, int(self._counts.max()))),
            residents=tuple(tuple(row.nonzero()[0].tolist()) for row in self._resident),
            slots=len(self._slot_free_ns),
            lookahead=self._lookahead,
            tier=self._tier,
            host_computes=self._host_computes,
            link_ready_ns=self._entry_link_ns,
            prediction_ns=self._prediction_ns,
            predicted=None if predictor is None else self._forecasts.foreseen(predictor),
        )
        plan = Plan(
            layers=tuple(self._layers),
            transfers=tuple(self._transfers),
            info=PlanInfo(method=self._policy.name, makespan_ns=self._layer_end_ns),
        )
        return instance, plan

    @property
    def link_ready_ns(self) -> int:
        """How long after the last layer's end the link stays busy."""
        return max(0, self._link_ns - self._layer_end_ns)

    def _prediction_of(self, layer: int) -> int:
        return self._prediction_ns[layer] if self._prediction_ns else 0

    def _dense_ns(self, layer: int) -> int:
        return self._costs.dense_ns(layer, self._tokens)

    def _state(self, layer: int, counts: IntArray, gate_ns: int) -> GateState:
        arrival_ns = np.full(counts.shape[0], -1, dtype=np.int64)
        held_later = 0
        for (target, expert), (_, end_ns) in self._landed.items():
            if target == layer:
                arrival_ns[expert] = max(0, end_ns - gate_ns)
            else:
                held_later += 1
        if layer >= 0:
            arrival_ns[self._resident[layer]] = 0
        free = len(self._slot_free_ns) - held_later
        return GateState(
            layer=layer,
            gpu_ns=self._tables.gpu_ns(layer, counts),
            cpu_ns=self._tables.cpu_ns(layer, counts),
            active=counts > 0,
            arrival_ns=arrival_ns,
            copy_ns=self._costs.copy_ns(max(layer, 0)),
            link_free_ns=max(0, self._link_ns - gate_ns),
            usable_slots=free,
            # Where every missing expert must be copied, one slot always stays with the layer at hand.
            free_slots=free if self._host_computes else max(0, free - 1),
            host_computes=self._host_computes,
            future=self._future(layer, gate_ns),
            pinned=self._resident[max(layer, 0)],
            host_free_ns=max(0, self._host_free_ns - gate_ns),
        )

    def _future(self, layer: int, gate_ns: int) -> tuple[LayerForecast, ...]:
        if layer < 0 or not self._prediction_of(layer):
            self._forecasts.now(layer)
        forecasts = []
        for target, forecast in enumerate(self._forecasts.at(layer, gate_ns), start=layer + 1):
            gpu_ns, cpu_ns = self._tables.expected_ns(target, forecast, batch_tokens=self._tokens)
            if not self._host_computes:
                # What is not brought ahead costs its copy later, and then its computation all the same.
                cpu_ns = forecast.probability * self._costs.copy_ns(target) + gpu_ns
            held = self._resident[target].copy()
            held[[expert for (owner, expert) in self._landed if owner == target]] = True
            forecasts.append(
                LayerForecast(
                    cpu_ns=cpu_ns,
                    gpu_ns=gpu_ns,
                    probability=forecast.probability,
                    held=held,
                    dense_ns=self._dense_ns(target),
                    copy_ns=self._costs.copy_ns(target),
                )
            )
        return tuple(forecasts)

    def _run_layer(self, layer: int, decision: GateDecision, gate_ns: int) -> tuple[Transfer, ...]:
        """Advance the clock over the layer's computations; returns its on-demand copies."""
        used = set(decision.gpu)
        for (owner, expert), (slot, end_ns) in list(self._landed.items()):
            if owner == layer and expert not in used:
                self._slot_free_ns[slot] = max(end_ns, gate_ns)
                del self._landed[owner, expert]
        copies: list[Transfer] = []
        gpu_ns = gate_ns
        times = self._tables.gpu_ns(layer, self._counts[layer])
        for expert in decision.gpu:
            if self._resident[layer, expert]:
                gpu_ns += int(times[expert])
                continue
            if (layer, expert) not in self._landed:
                copies.append(self._copy(layer, expert, layer, gate_ns))
            slot, end_ns = self._landed.pop((layer, expert))
            gpu_ns = max(gpu_ns, end_ns) + int(times[expert])
            self._slot_free_ns[slot] = gpu_ns
        host = self._counts[layer][list(decision.cpu)]
        cpu_ns = max(gate_ns, self._host_free_ns) + int(self._tables.cpu_ns(layer, host).sum())
        self._layer_end_ns = max(gpu_ns, cpu_ns) if decision.cpu else gpu_ns
        self._host_free_ns = cpu_ns + self._prediction_of(layer)
        if layer + 1 == self._resident.shape[0]:
            # A step is over when its last prediction is.
            self._layer_end_ns = max(self._layer_end_ns, self._host_free_ns)
        return tuple(copies)

    def _prefetch(
        self, state: GateState, decision: GateDecision, gate_ns: int, next_gate_ns: int
    ) -> tuple[Transfer, ...]:
        layer, copies = state.layer, list[Transfer]()
        # Where every missing expert must be copied, one slot always stays with the layer at hand.
        spare = sum(free_ns is not None for free_ns in self._slot_free_ns) - (not self._host_computes)
        for ahead, expert in decision.prefetch[: max(0, spare)]:
            start_ns = max(self._link_ns, gate_ns, self._first_free()[0])
            if start_ns >= next_gate_ns:
                break
            over_ns = start_ns + self._costs.copy_ns(layer + ahead) - next_gate_ns
            if over_ns > 0 and not self._worth(state, decision, ahead, expert, over_ns, copies):
                break
            copies.append(self._copy(layer + ahead, expert, layer, gate_ns))
        return tuple(copies)

    def _worth(
        self,
        state: GateState,
        decision: GateDecision,
        ahead: int,
        expert: int,
        over_ns: int,
        copies: list[Transfer],
    ) -> bool:
        """Whether to start a copy that ends ``over_ns`` after the next gate."""
        # With one coming layer nothing is known of what the link is worth after it.
        if decision.value_ns is None or not self._host_computes or len(state.future) < 2:
            return True
        following = state.layer + 1
        future, there = state.future[0], state.future[0].held.copy()
        there[[copy.expert for copy in copies if copy.layer == following]] = True
        return worth_overlap(
            future.cpu_ns,
            future.gpu_ns,
            future.probability,
            there,
            expert if ahead == 1 else -1,
            future.copy_ns,
            over_ns,
            sum(self._costs.copy_ns(copy.layer) for copy in copies if copy.layer > following),
            decision.value_ns,
            state.future[1].copy_ns,
        )

    def _first_free(self) -> tuple[int, int]:
        """When the first slot is free, and which."""
        free = [(free_ns, slot) for slot, free_ns in enumerate(self._slot_free_ns) if free_ns is not None]
        if not free:
            raise ValueError(
                f"expected a free slot among {len(self._slot_free_ns)}, got all of them held for later "
                f"layers by policy {self._policy.name!r}"
            )
        return min(free)

    def _copy(self, layer: int, expert: int, gate: int, gate_ns: int) -> Transfer:
        free_ns, slot = self._first_free()
        start_ns = max(self._link_ns, gate_ns, free_ns)
        self._link_ns = start_ns + self._costs.copy_ns(layer)
        self._slot_free_ns[slot] = None
        self._landed[layer, expert] = (slot, self._link_ns)
        self._arrival_ns[layer, expert] = self._link_ns
        transfer = Transfer(layer=layer, expert=expert, slot=slot, gate=gate)
        self._transfers.append(transfer)
        return transfer
