"""Whole steps run gate by gate in one compiled call, to judge policies on thousands of steps."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from prescope.formulation import Instance, LayerPlan, Plan, PlanInfo, Transfer
from prescope.formulation.arrays import instance_arrays
from prescope.formulation.demand import FloatArray, IntArray
from prescope.runtime.control.guarded_gate import run_gate
from prescope.runtime.control.step_state import HOST_FREE, LAYER_END, Site, StepState, new_state
from prescope.runtime.control.twin import predicted_of
from prescope.solver.online.gate_arrays import PolicyCode
from prescope.solver.online.guard import GuardMemory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rollout:
    """What a policy came to.

    Parameters
    ----------
    layer_end_ns
        End of every layer, int64 ``[L]``.
    gpu, cpu
        Experts in order, -1 behind the last; int64 ``[L, E]``.
    copies
        Layer, expert, slot and gate of every copy, int64 ``[K, 4]``.
    """

    layer_end_ns: IntArray
    gpu: IntArray
    cpu: IntArray
    copies: IntArray

    def plan(self, info: PlanInfo | None = None) -> Plan:
        """The realised plan."""
        return Plan(
            layers=tuple(
                LayerPlan(gpu=tuple(gpu[gpu >= 0].tolist()), cpu=tuple(cpu[cpu >= 0].tolist()))
                for gpu, cpu in zip(self.gpu, self.cpu, strict=True)
            ),
            transfers=tuple(
                Transfer(layer=layer, expert=expert, slot=slot, gate=gate)
                for layer, expert, slot, gate in self.copies.tolist()
            ),
            info=info or PlanInfo(makespan_ns=int(self.layer_end_ns[-1])),
        )


def site_of(instance: Instance) -> Site:
    """Costs and residents of an instance as arrays."""
    arrays = instance_arrays(instance)
    counts = range(instance.demand.batch_tokens + 2)
    return Site(
        dense_ns=arrays.dense_ns.copy(),
        copy_ns=arrays.copy_ns.copy(),
        prediction_ns=arrays.prediction_ns.copy(),
        gpu_ns=np.array([[curve(count) for count in counts] for curve in instance.costs.gpu], dtype=np.int64),
        cpu_ns=np.array([[curve(count) for count in counts] for curve in instance.costs.cpu], dtype=np.int64),
        resident=arrays.resident.copy(),
        lookahead=instance.lookahead,
        host_computes=instance.host_computes,
        tokens=instance.demand.batch_tokens,
    )


def rollout(instance: Instance, code: PolicyCode) -> Rollout:
    """Run a policy over an instance with predictions, as `prescope.runtime.control.realise` does.

    Raises
    ------
    ValueError
        When the instance has no predictions.
    """
    predicted = predicted_of(instance)
    return roll_out(
        site_of(instance),
        slots=instance.slots,
        counts=instance.demand.counts,
        probabilities=predicted.probabilities,
        expected_tokens=predicted.expected_tokens,
        code=code,
        link_ready_ns=instance.link_ready_ns,
    )


def roll_out(
    site: Site,
    *,
    slots: int,
    counts: IntArray,
    probabilities: FloatArray,
    expected_tokens: FloatArray,
    code: PolicyCode,
    link_ready_ns: int = 0,
) -> Rollout:
    """Run ``L`` layers, which may be those of many steps in a row.

    Steps in a row share their clock, link and slots: what is brought for the first layers of a step during
    the last ones of the step before is there.

    Parameters
    ----------
    site
        Costs and residents of all ``L`` layers.
    slots
        Device buffers.
    counts
        True tokens, int64 ``[L, E]``.
    probabilities, expected_tokens
        As of `prescope.formulation.PredictedDemand`, ``[horizons, L, E]``.
    code
        The policy.
    link_ready_ns
        The link is busy until then.
    """
    layers, experts = counts.shape
    ahead = _reach(code, min(site.lookahead, probabilities.shape[0]))
    memory = GuardMemory.fresh(ahead) if code.guard > 0.0 else None
    state = new_state(layers, experts, slots=slots, ahead=ahead, link_ready_ns=link_ready_ns, memory=memory)
    gpu = np.full((layers, experts), -1, dtype=np.int64)
    cpu = np.full((layers, experts), -1, dtype=np.int64)
    ends = np.zeros(layers, dtype=np.int64)
    # Plain copies: arrays that may not be written to would be compiled for once more.
    _run(
        site, state, counts.copy(), probabilities.copy(), expected_tokens.copy(), ahead, code, ends, gpu, cpu
    )
    return Rollout(layer_end_ns=ends, gpu=gpu, cpu=cpu, copies=state.copies[: state.counters[0]].copy())


def _reach(code: PolicyCode, lookahead: int) -> int:
    return lookahead if code.ahead < 0 else min(code.ahead, lookahead)


@numba.njit(cache=True, error_model="numpy")
def _run(
    site: Site,
    state: StepState,
    counts: IntArray,
    probabilities: FloatArray,
    expected_tokens: FloatArray,
    reach: int,
    code: PolicyCode,
    ends: IntArray,
    gpu: IntArray,
    cpu: IntArray,
) -> None:
    layers, experts = counts.shape
    nothing = np.zeros(experts, dtype=np.int64)
    ready_ns = np.zeros(layers, dtype=np.int64)
    newest = -1
    for layer in range(-1, layers):
        gate_ns = 0
        if layer >= 0:
            gate_ns = state.clock[LAYER_END] + site.dense_ns[layer]
            if site.prediction_ns[layer] == 0:
                newest = layer
        while newest < layer - 1 and ready_ns[newest + 1] <= gate_ns:
            newest += 1
        # Forecasts that are still being computed are not known yet: the newest finished ones serve.
        behind = layer - newest
        ahead = max(0, min(reach - behind, layers - 1 - layer))
        for row in range(ahead):
            target = layer + 1 + row
            for expert in range(experts):
                state.coming.probability[row, expert] = probabilities[row + behind, target, expert]
                state.coming.cpu_ns[row, expert] = expected_tokens[row + behind, target, expert]
        run_gate(site, state, layer, nothing if layer < 0 else counts[layer], ahead, code)
        if layer < 0:
            continue
        ready_ns[layer] = state.clock[HOST_FREE] if site.prediction_ns[layer] else gate_ns
        ends[layer] = state.clock[LAYER_END]
        for rank in range(state.counters[1]):
            gpu[layer, rank] = state.answer.gpu[rank]
        for rank in range(state.counters[2]):
            cpu[layer, rank] = state.answer.cpu[rank]
