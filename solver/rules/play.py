"""A gate policy played over a batch whose demand is known: from decisions at gates to a plan.

The clock is that of `prescope.formulation.evaluate`; as in a running batch, a prefetch is issued only if it
starts before the next gate, where the policy wishes anew.
"""

from __future__ import annotations

import numpy as np

from prescope.formulation.arrays import InstanceArrays, instance_arrays
from prescope.formulation.instance import Instance
from prescope.formulation.plan import LayerPlan, Plan, Transfer
from prescope.solver.online.policies import GatePolicy
from prescope.solver.online.state import GateDecision, GateState, LayerForecast


def play(instance: Instance, policy: GatePolicy) -> Plan:
    """Let a policy decide gate after gate, with forecasts that are right.

    Parameters
    ----------
    instance
        The batch; its ``predicted`` demand is not looked at.
    policy
        Any gate policy; it sees the true counts of the gate's layer, and those of the coming layers within
        its horizon as forecasts.

    Returns
    -------
    Plan
        With the slot and the gate of every copy; the evaluator gives it the times of this clock.
    """
    game = _Game(instance)
    for layer in range(-1, instance.layers):
        game.gate(layer, policy)
    return Plan(layers=tuple(game.layers), transfers=tuple(game.transfers))


class _Game:
    """Clock, link, host and slots between gates."""

    def __init__(self, instance: Instance) -> None:
        self.layers: list[LayerPlan] = []
        self.transfers: list[Transfer] = []
        self._instance = instance
        self._arrays: InstanceArrays = instance_arrays(instance)
        self._link_ns = instance.link_ready_ns
        self._end_ns = 0
        self._host_ns = 0
        # Per slot: when it is free, or None while its copy waits for a later layer.
        self._free_ns: list[int | None] = [0] * instance.slots
        self._landed: dict[tuple[int, int], tuple[int, int]] = {}

    def gate(self, layer: int, policy: GatePolicy) -> None:
        """Decide and carry out one layer; -1 is the start of the batch."""
        dense_ns = self._arrays.dense_ns
        gate_ns = self._end_ns + int(dense_ns[layer]) if layer >= 0 else 0
        horizon = min(policy.horizon(self._instance.lookahead), self._instance.layers - 1 - layer)
        state = self._state(layer, gate_ns, horizon)
        if layer < 0 and not state.future:
            return
        decision = policy.decide(state)
        if layer >= 0:
            self._run(layer, decision, gate_ns)
        if layer + 1 < self._instance.layers:
            self._prefetch(layer, decision, gate_ns, self._end_ns + int(dense_ns[layer + 1]))

    def _state(self, layer: int, gate_ns: int, horizon: int) -> GateState:
        arrays, at = self._arrays, max(layer, 0)
        arrival_ns = np.full(self._instance.experts, -1, dtype=np.int64)
        for (target, expert), (_, end_ns) in self._landed.items():
            if target == layer:
                arrival_ns[expert] = max(0, end_ns - gate_ns)
        active = arrays.active[at] & (layer >= 0)
        if layer >= 0:
            arrival_ns[arrays.resident[layer]] = 0
        free = len(self._free_ns) - sum(target != layer for target, _ in self._landed)
        return GateState(
            layer=layer,
            gpu_ns=arrays.gpu_ns[at] * active,
            cpu_ns=arrays.cpu_ns[at] * active,
            active=active,
            arrival_ns=arrival_ns,
            copy_ns=int(arrays.copy_ns[at]),
            link_free_ns=max(0, self._link_ns - gate_ns),
            usable_slots=free,
            # Where every missing expert must be copied, one slot always stays with the layer at hand.
            free_slots=free if self._instance.host_computes else max(0, free - 1),
            host_computes=self._instance.host_computes,
            future=tuple(self._forecast(layer + ahead) for ahead in range(1, horizon + 1)),
            host_free_ns=max(0, self._host_ns - gate_ns),
        )

    def _forecast(self, target: int) -> LayerForecast:
        arrays = self._arrays
        gpu_ns, cpu_ns = arrays.gpu_ns[target].astype(np.float64), arrays.cpu_ns[target].astype(np.float64)
        if not self._instance.host_computes:
            # What is not brought ahead costs its copy later, and then its computation all the same.
            cpu_ns = arrays.active[target] * float(arrays.copy_ns[target]) + gpu_ns
        held = arrays.resident[target].copy()
        held[[expert for owner, expert in self._landed if owner == target]] = True
        return LayerForecast(
            cpu_ns=cpu_ns,
            gpu_ns=gpu_ns,
            probability=arrays.active[target].astype(np.float64),
            held=held,
            dense_ns=int(arrays.dense_ns[target]),
            copy_ns=int(arrays.copy_ns[target]),
        )

    def _run(self, layer: int, decision: GateDecision, gate_ns: int) -> None:
        """Advance the clock over a layer and note its plan and its own copies."""
        arrays = self._arrays
        for (owner, expert), (slot, end_ns) in list(self._landed.items()):
            if owner == layer and expert not in decision.gpu:
                self._free_ns[slot] = max(end_ns, gate_ns)
                del self._landed[owner, expert]
        device = gate_ns
        for expert in decision.gpu:
            time_ns = int(arrays.gpu_ns[layer, expert])
            if arrays.resident[layer, expert]:
                device += time_ns
                continue
            if (layer, expert) not in self._landed:
                self._copy(layer, expert, layer, gate_ns)
            slot, end_ns = self._landed.pop((layer, expert))
            device = max(device, end_ns) + time_ns
            self._free_ns[slot] = device
        host = max(gate_ns, self._host_ns) + int(arrays.cpu_ns[layer, list(decision.cpu)].sum())
        self._host_ns = host + int(arrays.prediction_ns[layer])
        self._end_ns = max(device, host) if decision.cpu else device
        if layer == self._instance.layers - 1:
            self._end_ns = max(self._end_ns, self._host_ns)
        self.layers.append(LayerPlan(gpu=decision.gpu, cpu=decision.cpu))

    def _prefetch(self, layer: int, decision: GateDecision, gate_ns: int, next_gate_ns: int) -> None:
        spare = sum(free_ns is not None for free_ns in self._free_ns) - (not self._instance.host_computes)
        for ahead, expert in decision.prefetch[: max(0, spare)]:
            if max(self._link_ns, gate_ns, self._first_free()[0]) >= next_gate_ns:
                break
            self._copy(layer + ahead, expert, layer, gate_ns)

    def _first_free(self) -> tuple[int, int]:
        return min((free_ns, slot) for slot, free_ns in enumerate(self._free_ns) if free_ns is not None)

    def _copy(self, layer: int, expert: int, gate: int, gate_ns: int) -> None:
        free_ns, slot = self._first_free()
        self._link_ns = max(self._link_ns, gate_ns, free_ns) + int(self._arrays.copy_ns[layer])
        self._free_ns[slot] = None
        self._landed[layer, expert] = (slot, self._link_ns)
        self.transfers.append(Transfer(layer=layer, expert=expert, slot=slot, gate=gate))
