"""Gate-by-gate control by a policy that runs compiled: forecasts in, one call, a wave out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prescope.formulation import CostModel, Demand, Instance, LayerPlan, Plan, PlanInfo, Tier, Transfer
from prescope.formulation.demand import IntArray
from prescope.runtime.control.online import OnlineStep
from prescope.runtime.control.prediction_lane import Forecaster, PredictionLane
from prescope.runtime.control.running import TOO_MANY, Running, run_running_gate
from prescope.runtime.control.step_state import HOST_FREE, LAYER_END, LINK, Site, new_state
from prescope.runtime.control.tables import CostTables
from prescope.runtime.control.wave import StepControl, Wave
from prescope.solver.online import ExpectedPolicy, GatePolicy, policy_code


class CompiledStep:
    """Controls one step as `OnlineStep` does, to the nanosecond, in a fraction of the time.

    Parameters
    ----------
    costs, tables, resident, slots, lookahead, forecast, tokens, tier, host_computes
        As for `OnlineStep`.
    policy
        With a compiled form, see `prescope.solver.online.policy_code`.
    link_ready_ns, prediction_ns, reach
        As for `OnlineStep`.

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
        code = policy_code(policy)
        if code is None:
            raise ValueError(f"expected a policy with a compiled form, got {policy.name!r}")
        layers, experts = resident.shape
        self._costs, self._tables, self._resident = costs, tables, resident
        self._lookahead, self._name, self._code = lookahead, policy.name, code
        self._tokens, self._tier, self._host_computes = tokens, tier, host_computes
        self._entry_link_ns, self._prediction_ns = link_ready_ns, prediction_ns
        ahead = policy.horizon(lookahead if reach is None else min(lookahead, reach))
        self._forecasts = PredictionLane(forecast, layers=layers, experts=experts, reach=ahead)
        # What the guard has learned goes on from step to step.
        memory = policy.memory if isinstance(policy, ExpectedPolicy) else None
        self._state = new_state(
            layers, experts, slots=slots, ahead=ahead, link_ready_ns=link_ready_ns, memory=memory
        )
        self._site = self._make_site(tokens)
        self._running = Running(self._site, self._state, code)
        self._counts = np.zeros(resident.shape, dtype=np.int64)
        self._brought = np.zeros(experts, dtype=np.int64)
        self._layers: list[LayerPlan] = []
        self._transfers: list[Transfer] = []

    def start(self) -> Wave:
        """Issue what the forecasts of the first layers ask for before the first gate."""
        copies, _ = self._run(-1, np.zeros(self._resident.shape[1], dtype=np.int64), 0)
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
        state = self._state
        copies, brought = self._run(
            layer, self._counts[layer], int(state.clock[LAYER_END] + self._site.dense_ns[layer])
        )
        plan = LayerPlan(
            gpu=tuple(state.answer.gpu[: state.counters[1]].tolist()),
            cpu=tuple(state.answer.cpu[: state.counters[2]].tolist()),
        )
        self._layers.append(plan)
        prediction_ns = self._prediction_ns[layer] if self._prediction_ns else 0
        predict = self._forecasts.announce(layer, int(state.clock[HOST_FREE])) if prediction_ns else None
        return Wave(
            layer=layer,
            plan=plan,
            copies=copies,
            brought=brought,
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
            slots=self._state.slot_free_ns.shape[0],
            lookahead=self._lookahead,
            tier=self._tier,
            host_computes=self._host_computes,
            link_ready_ns=self._entry_link_ns,
            prediction_ns=self._prediction_ns,
            predicted=None if predictor is None else self._forecasts.foreseen(predictor),
        )
        info = PlanInfo(method=self._name, makespan_ns=int(self._state.clock[LAYER_END]))
        return instance, Plan(layers=tuple(self._layers), transfers=tuple(self._transfers), info=info)

    @property
    def link_ready_ns(self) -> int:
        """How long after the last layer's end the link stays busy."""
        return max(0, int(self._state.clock[LINK] - self._state.clock[LAYER_END]))

    def _make_site(self, most_tokens: int) -> Site:
        gpu_ns, cpu_ns = self._tables.arrays(max(most_tokens, self._tokens) + 1)
        dense_ns, copy_ns = self._tables.layers(self._tokens)
        prediction_ns = self._prediction_ns or (0,) * len(dense_ns)
        return Site(
            dense_ns=dense_ns,
            copy_ns=copy_ns,
            prediction_ns=np.array(prediction_ns, dtype=np.int64),
            gpu_ns=gpu_ns,
            cpu_ns=cpu_ns,
            resident=self._resident,
            lookahead=self._lookahead,
            host_computes=self._host_computes,
            tokens=self._tokens,
        )

    def _run(
        self, layer: int, counts: IntArray, gate_ns: int
    ) -> tuple[tuple[Transfer, ...], tuple[int, ...]]:
        """Decide; returns the copies issued now, and the experts of the layer that have been brought."""
        state = self._state
        if layer < 0 or not (self._prediction_ns and self._prediction_ns[layer]):
            self._forecasts.now(layer)
        forecasts = self._forecasts.at(layer, gate_ns)
        for ahead, forecast in enumerate(forecasts):
            state.coming.probability[ahead] = forecast.probability
            state.coming.cpu_ns[ahead] = forecast.expected_tokens
        done = int(state.counters[0])
        brought = run_running_gate(self._running, layer, counts, len(forecasts), self._brought)
        if brought == TOO_MANY:
            self._site = self._make_site(int(counts.max()))
            self._running = Running(self._site, state, self._code)
            brought = run_running_gate(self._running, layer, counts, len(forecasts), self._brought)
        copies = tuple(
            Transfer(layer=target, expert=expert, slot=slot, gate=gate)
            for target, expert, slot, gate in state.copies[done : state.counters[0]].tolist()
        )
        self._transfers.extend(copies)
        return copies, tuple(self._brought[:brought].tolist())


def online_step(
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
) -> StepControl:
    """Control of one step by a gate policy: compiled where the policy can, else as it is.

    The parameters are those of `OnlineStep`.
    """
    kind = OnlineStep if policy_code(policy) is None else CompiledStep
    return kind(
        costs=costs,
        tables=tables,
        resident=resident,
        slots=slots,
        lookahead=lookahead,
        policy=policy,
        forecast=forecast,
        tokens=tokens,
        tier=tier,
        host_computes=host_computes,
        link_ready_ns=link_ready_ns,
        prediction_ns=prediction_ns,
        reach=reach,
    )
