"""Gate decisions as one compiled call on plain arrays: those of `SplitPolicy`, and policy ``expected``."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.lead_dp import value_at
from prescope.solver.online.gate_arrays import Answer, Coming, Gate, PolicyCode, Scratch
from prescope.solver.online.insertion import insert
from prescope.solver.online.link_value import fill_lead_values, follow_lead
from prescope.solver.online.outlook_tables import NEGLIGIBLE_NS, fill_expected_table
from prescope.solver.online.plain_table import fill_plain_table
from prescope.solver.online.split import split_costs


@numba.njit(cache=True)
def decide(gate: Gate, coming: Coming, code: PolicyCode, answer: Answer) -> tuple[int, int, int, int]:
    """Decide one gate; returns how many entries of ``gpu``, ``cpu`` and wishes are valid, and the copies now.

    The copies now are the last ones of ``gpu``.
    """
    look = coming.dense_ns.shape[0] > 0 and gate.free_slots > 0
    scratch = answer.scratch
    if look:
        _look_ahead(coming, gate.free_slots, code, scratch)
    if gate.layer < 0:
        wishes = _wishes(coming, gate.free_slots, -gate.link_free_ns, answer) if look else 0
        return 0, 0, wishes, 0
    every = code.copies == 1 or not gate.host_computes
    ready, late, missing = _sides(gate)
    end_ns, waited, demoted, link_ns = split_costs(
        _of(gate.gpu_ns, ready),
        _of(gate.cpu_ns, ready),
        _of(gate.arrival_ns, late),
        _of(gate.gpu_ns, late),
        _of(gate.cpu_ns, late),
        _of(gate.gpu_ns, missing),
        _of(gate.cpu_ns, missing),
        gate.copy_ns,
        gate.link_free_ns,
        gate.host_free_ns,
        gate.usable_slots,
        gate.host_computes,
        every,
        _spare_ns(scratch.value[0, : gate.free_slots + 1]) if look else 0,
    )
    copies = end_ns.shape[0] - 1
    if code.copies == 2 and gate.host_computes:
        copies = 0
    elif not every:
        copies = _best_split(end_ns, link_ns, coming, gate.free_slots, look, scratch)
    gpu = cpu = 0
    to_gpu, to_cpu, pinned_now = answer.gpu, answer.cpu, gate.pinned
    # Experts in slots first: the sooner they are done, the sooner the link has their slots.
    for pinned in (False, True):
        for rank in range(demoted[copies], ready.shape[0]):
            if pinned_now[ready[rank]] == pinned:
                to_gpu[gpu] = ready[rank]
                gpu += 1
    for rank in range(waited[copies]):
        to_gpu[gpu] = late[rank]
        gpu += 1
    for rank in range(copies):
        to_gpu[gpu] = missing[rank]
        gpu += 1
    for rank in range(copies, missing.shape[0]):
        to_cpu[cpu] = missing[rank]
        cpu += 1
    for rank in range(waited[copies], late.shape[0]):
        to_cpu[cpu] = late[rank]
        cpu += 1
    for rank in range(demoted[copies]):
        to_cpu[cpu] = ready[rank]
        cpu += 1
    lead_ns = end_ns[copies] - link_ns[copies]
    wishes = _wishes(coming, gate.free_slots, lead_ns, answer) if look else 0
    return gpu, cpu, wishes, copies


@numba.njit(cache=True)
def _sides(gate: Gate) -> tuple[IntArray, IntArray, IntArray]:
    """Active experts: there, lightest first; on their way, earliest first; missing, heaviest first."""
    active, arrival_ns, cpu_ns = gate.active, gate.arrival_ns, gate.cpu_ns
    experts = active.shape[0]
    sides = np.empty((3, experts), dtype=np.int64)
    ready, late, missing = sides[0], sides[1], sides[2]
    readies = lates = misses = 0
    for expert in range(experts):
        if not active[expert]:
            continue
        if arrival_ns[expert] == 0:
            insert(ready, readies, expert, cpu_ns, 1)
            readies += 1
        elif arrival_ns[expert] > 0:
            insert(late, lates, expert, arrival_ns, 1)
            lates += 1
        else:
            insert(missing, misses, expert, cpu_ns, -1)
            misses += 1
    return ready[:readies], late[:lates], missing[:misses]


@numba.njit(cache=True)
def _of(values: IntArray, experts: IntArray) -> IntArray:
    chosen = np.empty(experts.shape[0], dtype=np.int64)
    for rank in range(experts.shape[0]):
        chosen[rank] = values[experts[rank]]
    return chosen


@numba.njit(cache=True)
def _look_ahead(coming: Coming, slots: int, code: PolicyCode, scratch: Scratch) -> None:
    """Fill the scratch with the tables of the coming layers and the value of the link's lead over them."""
    # Out of the tuples once: taking an array out counts its references.
    cpu_ns, gpu_ns, probability, held = coming.cpu_ns, coming.gpu_ns, coming.probability, coming.held
    dense_ns, copy_ns = coming.dense_ns, coming.copy_ns
    order, tables_ns, last_ns, max_copies = (
        scratch.order,
        scratch.tables_ns,
        scratch.last_ns,
        scratch.max_copies,
    )
    demoted = scratch.demoted
    for layer in range(dense_ns.shape[0]):
        if code.expected:
            max_copies[layer] = fill_expected_table(
                cpu_ns[layer],
                gpu_ns[layer],
                probability[layer],
                held[layer],
                dense_ns[layer],
                copy_ns[layer],
                slots,
                code.spread,
                NEGLIGIBLE_NS,
                order[layer],
                tables_ns[layer],
                last_ns[layer],
            )
        else:
            max_copies[layer] = fill_plain_table(
                cpu_ns[layer],
                gpu_ns[layer],
                held[layer],
                dense_ns[layer],
                order[layer],
                tables_ns[layer],
                last_ns[layer],
                demoted,
            )
    fill_lead_values(
        tables_ns, last_ns, max_copies, dense_ns, copy_ns, slots, scratch.value, scratch.tails_ns
    )


@numba.njit(cache=True)
def _spare_ns(value: FloatArray) -> int:
    """The most that a lead can be worth: no copy that lands this much after an end makes up for it."""
    return int(value.max() - value.min()) + 2


@numba.njit(cache=True)
def _best_split(
    end_ns: IntArray, link_ns: IntArray, coming: Coming, slots: int, look: bool, scratch: Scratch
) -> int:
    best, best_total = 0, np.inf
    value = scratch.value[0, : slots + 1]
    step_ns = float(coming.copy_ns[0]) if look else 0.0
    for copies in range(end_ns.shape[0]):
        total = float(end_ns[copies])
        if look:
            lead_ns = min(float(end_ns[copies] - link_ns[copies]), slots * step_ns)
            total += value_at(value, lead_ns, step_ns)
        if total < best_total:
            best, best_total = copies, total
    return best


@numba.njit(cache=True)
def _wishes(coming: Coming, slots: int, lead_ns: int, answer: Answer) -> int:
    scratch = answer.scratch
    copies, order = scratch.copies, scratch.order
    wish_ahead, wish_expert = answer.wish_ahead, answer.wish_expert
    follow_lead(
        scratch.tables_ns,
        scratch.last_ns,
        scratch.max_copies,
        coming.dense_ns,
        coming.copy_ns,
        slots,
        scratch.value,
        scratch.tails_ns,
        min(lead_ns, slots * coming.copy_ns[0]),
        copies,
    )
    wishes = 0
    for layer in range(coming.dense_ns.shape[0]):
        for rank in range(copies[layer]):
            wish_ahead[wishes] = layer + 1
            wish_expert[wishes] = order[layer, rank]
            wishes += 1
    return wishes
