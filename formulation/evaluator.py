"""The exact evaluator: the only judge of what a plan costs."""

from __future__ import annotations

from prescope.formulation.arrays import instance_arrays
from prescope.formulation.demand import IntArray
from prescope.formulation.infeasible import InfeasiblePlanError, InfeasibleReason
from prescope.formulation.instance import Instance
from prescope.formulation.packed_plan import PackedPlan, pack_plan, release_gate
from prescope.formulation.plan import Plan
from prescope.formulation.schedule import Lane, Schedule, Task, TaskKind

_Times = tuple[int, int, int, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]


def makespan_ns(instance: Instance, plan: Plan) -> int:
    """When the last layer of a plan is done, in nanoseconds; raises like `evaluate`."""
    _, times = _times(instance, plan)
    return int(times[4][-1])


def evaluate(instance: Instance, plan: Plan) -> Schedule:
    """Start every task of a plan as early as the rules allow.

    The link carries one copy at a time in plan order; a copy also waits for its release (the gate it was
    decided at, or the one ``lookahead`` layers earlier) and for its slot. Device and host each compute in
    plan order from the layer's gate on; a layer ends when both are done. A copy nobody uses (a dropped
    prefetch) frees its slot at its layer's gate, or when it has landed if that is later. After a layer's
    experts the host works on the predictions of its gate, which holds up its next experts and the end of the
    batch but nothing else.

    Raises
    ------
    InfeasiblePlanError
        When the plan does not fit the instance; its ``reason`` says which rule is broken.
    """
    packed, times = _times(instance, plan)
    _, _, _, gate_ns, layer_end_ns, copy_start, copy_slots, gpu_start, cpu_start, prediction_start = times
    arrays = instance_arrays(instance)
    tasks: list[Task] = []
    slot_of = {}
    for index, transfer in enumerate(plan.transfers):
        start, slot = int(copy_start[index]), int(copy_slots[index])
        slot_of[transfer.layer, transfer.expert] = slot
        end = start + int(arrays.copy_ns[transfer.layer])
        tasks.append(_task(TaskKind.COPY, Lane.LINK, transfer.layer, transfer.expert, slot, start, end))
    for layer, layer_plan in enumerate(plan.layers):
        gate = int(gate_ns[layer])
        begin = gate - int(arrays.dense_ns[layer])
        tasks.append(_task(TaskKind.DENSE, Lane.GPU, layer, None, None, begin, gate))
        for offset, expert in enumerate(layer_plan.gpu, start=int(packed.gpu_offsets[layer])):
            start = int(gpu_start[offset])
            slot_or_none = slot_of.get((layer, expert))
            end = start + int(packed.gpu_ns[offset])
            tasks.append(_task(TaskKind.COMPUTE, Lane.GPU, layer, expert, slot_or_none, start, end))
        for offset, expert in enumerate(layer_plan.cpu, start=int(packed.cpu_offsets[layer])):
            start = int(cpu_start[offset])
            end = start + int(packed.cpu_ns[offset])
            tasks.append(_task(TaskKind.COMPUTE, Lane.CPU, layer, expert, None, start, end))
        if arrays.prediction_ns[layer]:
            start = int(prediction_start[layer])
            end = start + int(arrays.prediction_ns[layer])
            tasks.append(_task(TaskKind.PREDICT, Lane.CPU, layer, None, None, start, end))
    tasks.sort(key=lambda task: (task.start_ns, task.end_ns, task.lane, task.layer))
    ends = tuple(int(end) for end in layer_end_ns)
    return Schedule(tasks=tuple(tasks), layer_end_ns=ends, makespan_ns=ends[-1])


def _task(
    kind: TaskKind, lane: Lane, layer: int, expert: int | None, slot: int | None, start_ns: int, end_ns: int
) -> Task:
    return Task(kind=kind, lane=lane, layer=layer, expert=expert, slot=slot, start_ns=start_ns, end_ns=end_ns)


def _times(instance: Instance, plan: Plan) -> tuple[PackedPlan, _Times]:
    # Imported here: numba costs 0.3 s that reading an instance does not need.
    from prescope.formulation.kernel import FEASIBLE, evaluate_packed

    packed = pack_plan(instance, plan)
    arrays = instance_arrays(instance)
    times: _Times = evaluate_packed(
        instance.slots,
        instance.link_ready_ns,
        arrays.dense_ns,
        arrays.prediction_ns,
        arrays.copy_ns,
        packed.copy_layer,
        packed.copy_slot,
        packed.copy_gate,
        packed.copy_used,
        packed.gpu_offsets,
        packed.gpu_copy,
        packed.gpu_ns,
        packed.cpu_offsets,
        packed.cpu_ns,
    )
    if times[0] != FEASIBLE:
        _refuse(instance, plan, times[0], times[1], times[2])
    return packed, times


def _refuse(instance: Instance, plan: Plan, status: int, copy: int, layer: int) -> None:
    from prescope.formulation.kernel import NOT_RELEASED

    transfer = plan.transfers[copy]
    where = f"transfer {copy} (layer {transfer.layer}, expert {transfer.expert})"
    if status == NOT_RELEASED:
        raise InfeasiblePlanError(
            InfeasibleReason.TRANSFER_AFTER_USE,
            f"expected the transfers that layer {layer} needs ahead of {where}, which may not start before "
            f"the gate of layer {release_gate(instance, transfer)}, got them behind it",
        )
    if transfer.slot is not None:
        raise InfeasiblePlanError(
            InfeasibleReason.SLOT_OVERFLOW,
            f"expected slot {transfer.slot} of {instance.slots} to be free for {where} while layer {layer} "
            "waits for it, got it held for later work",
        )
    raise InfeasiblePlanError(
        InfeasibleReason.SLOT_OVERFLOW,
        f"expected a free slot among {instance.slots} for {where} while layer {layer} waits for it, "
        "got all of them held for later work",
    )
