"""Gate decisions as one compiled call on plain arrays: those of `SplitPolicy`, and policy ``expected``."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.reduction import fill_layer_table
from prescope.solver.lead_dp import value_at
from prescope.solver.online.link_value import fill_lead_values, follow_lead
from prescope.solver.online.outlook_tables import fill_expected_table
from prescope.solver.online.split import split_costs

BoolArray = npt.NDArray[np.bool_]

NEGLIGIBLE_NS = 1.0
"""Expected host time below which a copy would only push out others."""


class PolicyCode(NamedTuple):
    """A gate policy as numbers.

    Parameters
    ----------
    ahead
        Most layers it looks ahead; -1 is the whole lookahead.
    copies
        0 chooses the number of on-demand copies, 1 copies every missing expert, 2 none.
    expected
        Whether the tables of coming layers are those of policy ``expected``.
    spread
        Share of the experts' independent variance in its tables; 0 takes the maximum of expectations.
    guard
        Prefetch rests while it loses more than this share of the time; 0 never rests. With a guard, forecasts
        are corrected by what came of earlier ones.
    waits
        Whether a copy that would run into the next gate is started only where that is worth what the copies
        of that gate would have to wait.
    """

    ahead: int
    copies: int
    expected: bool
    spread: float
    guard: float = 0.0
    waits: bool = False


class Gate(NamedTuple):
    """The layer at hand; fields as of `prescope.solver.online.GateState`."""

    layer: int
    gpu_ns: IntArray
    cpu_ns: IntArray
    active: BoolArray
    arrival_ns: IntArray
    pinned: BoolArray
    copy_ns: int
    link_free_ns: int
    host_free_ns: int
    usable_slots: int
    free_slots: int
    host_computes: bool


class Coming(NamedTuple):
    """``W`` coming layers; fields as of `prescope.solver.online.LayerForecast`, stacked, ``[W, E]``."""

    cpu_ns: FloatArray
    gpu_ns: FloatArray
    probability: FloatArray
    held: BoolArray
    dense_ns: IntArray
    copy_ns: IntArray


class Scratch(NamedTuple):
    """Room for what a decision works out on its way.

    Parameters
    ----------
    order
        Candidates of each coming layer, heaviest first, int64 ``[W, E]``.
    tables_ns, last_ns, tails_ns
        Tables of the coming layers, int64 ``[W, E + 1]``.
    max_copies, copies
        Valid entries of each table less one, and the copies planned, int64 ``[W]``.
    value
        Value of the link's lead, float64 ``[W + 1, slots + 1]``.
    demoted
        Room for a table, int64 ``[E + 1]``.
    """

    order: IntArray
    tables_ns: IntArray
    last_ns: IntArray
    tails_ns: IntArray
    max_copies: IntArray
    copies: IntArray
    value: FloatArray
    demoted: IntArray


class Answer(NamedTuple):
    """Where a decision is written.

    Parameters
    ----------
    gpu, cpu
        Experts in order, int64 ``[E]``.
    wish_ahead, wish_expert
        Wished copies in link order, int64 ``[W * E]``.
    scratch
        Room to decide in.
    """

    gpu: IntArray
    cpu: IntArray
    wish_ahead: IntArray
    wish_expert: IntArray
    scratch: Scratch


def new_answer(ahead: int, experts: int, *, slots: int) -> Answer:
    """Room for decisions with at most ``ahead`` coming layers and ``slots`` slots."""
    table = (ahead, experts + 1)
    return Answer(
        gpu=np.zeros(experts, dtype=np.int64),
        cpu=np.zeros(experts, dtype=np.int64),
        wish_ahead=np.zeros(ahead * experts, dtype=np.int64),
        wish_expert=np.zeros(ahead * experts, dtype=np.int64),
        scratch=Scratch(
            order=np.zeros((ahead, experts), dtype=np.int64),
            tables_ns=np.zeros(table, dtype=np.int64),
            last_ns=np.zeros(table, dtype=np.int64),
            tails_ns=np.zeros(table, dtype=np.int64),
            max_copies=np.zeros(ahead, dtype=np.int64),
            copies=np.zeros(ahead, dtype=np.int64),
            value=np.zeros((ahead + 1, slots + 1)),
            demoted=np.zeros(experts + 1, dtype=np.int64),
        ),
    )


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
def least_end(
    counts: IntArray,
    gpu_row: IntArray,
    cpu_row: IntArray,
    resident: BoolArray,
    copy_ns: int,
    host_free_ns: int,
    slots: int,
    host_computes: bool,
) -> int:
    """How long a layer takes from its gate on, with a free link and nothing brought, when only it counts.

    Parameters
    ----------
    counts
        Tokens of its experts, int64 ``[E]``.
    gpu_row, cpu_row
        Time of an expert by tokens.
    resident
        Experts on the device, bool ``[E]``.
    copy_ns, host_free_ns, slots, host_computes
        As for `prescope.solver.online.split.split_costs`.
    """
    experts = counts.shape[0]
    room = np.empty((4, experts), dtype=np.int64)
    ready_gpu_ns, ready_cpu_ns, missing_gpu_ns, missing_cpu_ns = room[0], room[1], room[2], room[3]
    readies = misses = 0
    for expert in range(experts):
        tokens = counts[expert]
        if tokens > 0:
            gpu_ns, cpu_ns = gpu_row[tokens], cpu_row[tokens]
            if resident[expert]:
                place = readies
                readies += 1
                while place > 0 and ready_cpu_ns[place - 1] > cpu_ns:
                    ready_gpu_ns[place] = ready_gpu_ns[place - 1]
                    ready_cpu_ns[place] = ready_cpu_ns[place - 1]
                    place -= 1
                ready_gpu_ns[place], ready_cpu_ns[place] = gpu_ns, cpu_ns
            else:
                place = misses
                misses += 1
                while place > 0 and missing_cpu_ns[place - 1] < cpu_ns:
                    missing_gpu_ns[place] = missing_gpu_ns[place - 1]
                    missing_cpu_ns[place] = missing_cpu_ns[place - 1]
                    place -= 1
                missing_gpu_ns[place], missing_cpu_ns[place] = gpu_ns, cpu_ns
    none = room[0, :0]
    every = not host_computes
    end_ns, _, _, _ = split_costs(
        ready_gpu_ns[:readies],
        ready_cpu_ns[:readies],
        none,
        none,
        none,
        missing_gpu_ns[:misses],
        missing_cpu_ns[:misses],
        copy_ns,
        0,
        host_free_ns,
        slots,
        host_computes,
        every,
        0,
    )
    return int(end_ns[-1] if every else end_ns.min())


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
            _insert(ready, readies, expert, cpu_ns, 1)
            readies += 1
        elif arrival_ns[expert] > 0:
            _insert(late, lates, expert, arrival_ns, 1)
            lates += 1
        else:
            _insert(missing, misses, expert, cpu_ns, -1)
            misses += 1
    return ready[:readies], late[:lates], missing[:misses]


@numba.njit(cache=True)
def _insert(ordered: IntArray, length: int, expert: int, key: npt.NDArray[np.generic], sign: int) -> None:
    """Insert behind all that are not after it, so that equal experts keep their ascending ids."""
    value = sign * key[expert]
    place = length
    while place > 0 and sign * key[ordered[place - 1]] > value:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place] = expert


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
            max_copies[layer] = _fill_plain_table(
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
def _fill_plain_table(
    cpu_ns: FloatArray,
    gpu_ns: FloatArray,
    held: BoolArray,
    dense_ns: int,
    order: IntArray,
    table_ns: IntArray,
    last_ns: IntArray,
    demoted: IntArray,
) -> int:
    """Table of a coming layer as if the expected times were true ones; returns its number of candidates."""
    experts = cpu_ns.shape[0]
    there = np.empty(experts, dtype=np.int64)
    held_here = wanted = 0
    for expert in range(experts):
        if held[expert]:
            _insert(there, held_here, expert, cpu_ns, 1)
            held_here += 1
        elif cpu_ns[expert] > NEGLIGIBLE_NS:
            _insert(order, wanted, expert, cpu_ns, -1)
            wanted += 1
    fill_layer_table(
        _whole(cpu_ns, order, wanted),
        _whole(gpu_ns, order, wanted),
        _whole(cpu_ns, there, held_here),
        _whole(gpu_ns, there, held_here),
        dense_ns,
        wanted,
        True,
        table_ns,
        last_ns,
        demoted,
    )
    return wanted


@numba.njit(cache=True)
def _whole(values: FloatArray, experts: IntArray, length: int) -> IntArray:
    chosen = np.empty(length, dtype=np.int64)
    for rank in range(length):
        chosen[rank] = int(values[experts[rank]])
    return chosen


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
