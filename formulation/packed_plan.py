"""A plan checked against its instance and flattened to arrays for the compiled evaluator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prescope.formulation.arrays import instance_arrays
from prescope.formulation.demand import IntArray
from prescope.formulation.infeasible import InfeasiblePlanError, InfeasibleReason
from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan, Transfer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackedPlan:
    """Flat arrays of a plan with ``L`` layers, ``K`` copies, ``G`` device and ``C`` host computations.

    Parameters
    ----------
    copy_layer, copy_slot
        Layer of each copy and its demanded slot, or -1 for the first free one; int64 ``[K]``.
    copy_gate
        Layer at whose gate each copy is released, or -1 for the start of the batch; int64 ``[K]``.
    copy_used
        Whether the copied expert runs on the device in its layer; bool ``[K]``.
    gpu_offsets, cpu_offsets
        Where each layer's computations begin, int64 ``[L + 1]``.
    gpu_copy
        The copy that each device computation waits for, or -1 for a resident; int64 ``[G]``.
    gpu_ns, cpu_ns
        Durations, int64 ``[G]`` and ``[C]``.
    """

    copy_layer: IntArray
    copy_slot: IntArray
    copy_gate: IntArray
    copy_used: npt.NDArray[np.bool_]
    gpu_offsets: IntArray
    gpu_copy: IntArray
    gpu_ns: IntArray
    cpu_offsets: IntArray
    cpu_ns: IntArray


def pack_plan(instance: Instance, plan: Plan) -> PackedPlan:
    """Check everything about a plan that needs no clock, and flatten it.

    Raises
    ------
    InfeasiblePlanError
        With the rule broken and where.
    """
    if len(plan.layers) != instance.layers:
        raise InfeasiblePlanError(
            InfeasibleReason.LAYER_COUNT, f"expected {instance.layers} layers, got {len(plan.layers)}"
        )
    copies = _check_transfers(instance, plan)
    arrays = instance_arrays(instance)
    copy_used = np.zeros(len(plan.transfers), dtype=np.bool_)
    gpu_offsets, cpu_offsets = [0], [0]
    gpu_copy: list[int] = []
    gpu_ns: list[int] = []
    cpu_ns: list[int] = []
    for layer, layer_plan in enumerate(plan.layers):
        _check_layer(instance, layer, layer_plan.gpu, layer_plan.cpu)
        resident = set(instance.residents[layer])
        for expert in layer_plan.gpu:
            copy = -1 if expert in resident else copies.get((layer, expert))
            if copy is None:
                raise InfeasiblePlanError(
                    InfeasibleReason.MISSING_TRANSFER,
                    f"expected a transfer of layer {layer} expert {expert}, which runs on the device "
                    "and is not resident, got none",
                )
            if copy >= 0:
                copy_used[copy] = True
            gpu_copy.append(copy)
            gpu_ns.append(int(arrays.gpu_ns[layer, expert]))
        cpu_ns.extend(int(arrays.cpu_ns[layer, expert]) for expert in layer_plan.cpu)
        gpu_offsets.append(len(gpu_copy))
        cpu_offsets.append(len(cpu_ns))
    slots = [-1 if transfer.slot is None else transfer.slot for transfer in plan.transfers]
    return PackedPlan(
        copy_layer=np.array([transfer.layer for transfer in plan.transfers], dtype=np.int64),
        copy_slot=np.array(slots, dtype=np.int64),
        copy_gate=np.array([release_gate(instance, copy) for copy in plan.transfers], dtype=np.int64),
        copy_used=copy_used,
        gpu_offsets=np.array(gpu_offsets, dtype=np.int64),
        gpu_copy=np.array(gpu_copy, dtype=np.int64),
        gpu_ns=np.array(gpu_ns, dtype=np.int64),
        cpu_offsets=np.array(cpu_offsets, dtype=np.int64),
        cpu_ns=np.array(cpu_ns, dtype=np.int64),
    )


def release_gate(instance: Instance, transfer: Transfer) -> int:
    """Layer at whose gate a copy may start; -1 is the start of the batch."""
    earliest = max(-1, transfer.layer - instance.lookahead)
    return earliest if transfer.gate is None else transfer.gate


def _check_transfers(instance: Instance, plan: Plan) -> dict[tuple[int, int], int]:
    copies: dict[tuple[int, int], int] = {}
    for index, transfer in enumerate(plan.transfers):
        layer, expert = transfer.layer, transfer.expert
        where = f"transfer {index} (layer {layer}, expert {expert})"
        if layer >= instance.layers:
            raise InfeasiblePlanError(
                InfeasibleReason.UNKNOWN_LAYER, f"expected a layer in [0, {instance.layers - 1}], got {where}"
            )
        if expert >= instance.experts:
            raise InfeasiblePlanError(
                InfeasibleReason.UNKNOWN_EXPERT,
                f"expected an expert in [0, {instance.experts - 1}], got {where}",
            )
        if expert in instance.residents[layer]:
            raise InfeasiblePlanError(
                InfeasibleReason.RESIDENT_TRANSFERRED, f"expected a non-resident expert, got {where}"
            )
        if release_gate(instance, transfer) < max(-1, layer - instance.lookahead):
            raise InfeasiblePlanError(
                InfeasibleReason.TRANSFER_TOO_EARLY,
                f"expected a gate >= {layer - instance.lookahead} with lookahead {instance.lookahead}, "
                f"got gate {transfer.gate} for {where}",
            )
        if (layer, expert) in copies:
            raise InfeasiblePlanError(
                InfeasibleReason.TRANSFERRED_TWICE,
                f"expected one transfer per expert, got {where} after transfer {copies[layer, expert]}",
            )
        if instance.slots == 0 or (transfer.slot is not None and transfer.slot >= instance.slots):
            raise InfeasiblePlanError(
                InfeasibleReason.SLOT_OVERFLOW,
                f"expected one of {instance.slots} slots, got slot {transfer.slot} for {where}",
            )
        copies[layer, expert] = index
    return copies


def _check_layer(instance: Instance, layer: int, gpu: tuple[int, ...], cpu: tuple[int, ...]) -> None:
    placed = (*gpu, *cpu)
    for expert in placed:
        if expert >= instance.experts:
            raise InfeasiblePlanError(
                InfeasibleReason.UNKNOWN_EXPERT,
                f"expected an expert in [0, {instance.experts - 1}], got {expert} in layer {layer}",
            )
    if len(set(placed)) != len(placed):
        twice = sorted({expert for expert in placed if placed.count(expert) > 1})
        raise InfeasiblePlanError(
            InfeasibleReason.COMPUTED_TWICE, f"expected each expert once in layer {layer}, got {twice} again"
        )
    active = set(instance.demand.counts[layer].nonzero()[0].tolist())
    idle = set(placed) - active
    if idle:
        raise InfeasiblePlanError(
            InfeasibleReason.NOT_ACTIVATED,
            f"expected experts with tokens in layer {layer}, got {sorted(idle)}",
        )
    missing = active - set(placed)
    if missing:
        raise InfeasiblePlanError(
            InfeasibleReason.MISSING_DEVICE,
            f"expected every activated expert of layer {layer} on a device, got none for {sorted(missing)}",
        )
    if cpu and not instance.host_computes:
        raise InfeasiblePlanError(
            InfeasibleReason.MISSING_DEVICE,
            f"expected no expert on the host, which cannot compute, got {list(cpu)} in layer {layer}",
        )
