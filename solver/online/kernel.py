"""Gate decisions as one compiled call on plain arrays: those of `SplitPolicy`, and policy ``expected``."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.reduction import fill_layer_table
from prescope.solver.lead_dp import follow, lead_dp, value_at
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
        Prefetch rests while what was brought, or would have been, is worth less than this share of what the
        forecasts promised; 0 trusts them always.
    """

    ahead: int
    copies: int
    expected: bool
    spread: float
    guard: float = 0.0


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


class Answer(NamedTuple):
    """Where a decision is written.

    Parameters
    ----------
    gpu, cpu
        Experts in order, int64 ``[E]``.
    wish_ahead, wish_expert
        Wished copies in link order, int64 ``[W * E]``.
    """

    gpu: IntArray
    cpu: IntArray
    wish_ahead: IntArray
    wish_expert: IntArray


class _Tables(NamedTuple):
    order: IntArray
    tables_ns: IntArray
    last_ns: IntArray
    max_copies: IntArray
    value: FloatArray
    lookahead: int


@numba.njit(cache=True)
def decide(gate: Gate, coming: Coming, code: PolicyCode, answer: Answer) -> tuple[int, int, int, int]:
    """Decide one gate; returns how many entries of ``gpu``, ``cpu`` and wishes are valid, and the copies now.

    The copies now are the last ones of ``gpu``.
    """
    look = coming.dense_ns.shape[0] > 0 and gate.free_slots > 0
    tables = _tables(coming, gate.free_slots, code) if look else _no_tables()
    if gate.layer < 0:
        wishes = _wishes(tables, coming, gate.free_slots, float(-gate.link_free_ns), answer) if look else 0
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
    )
    copies = end_ns.shape[0] - 1
    if code.copies == 2 and gate.host_computes:
        copies = 0
    elif not every:
        copies = _best_split(end_ns, link_ns, tables, coming, gate.free_slots, look)
    gpu = cpu = 0
    # Experts in slots first: the sooner they are done, the sooner the link has their slots.
    for pinned in (False, True):
        for rank in range(demoted[copies], ready.shape[0]):
            if gate.pinned[ready[rank]] == pinned:
                answer.gpu[gpu] = ready[rank]
                gpu += 1
    for rank in range(waited[copies]):
        answer.gpu[gpu] = late[rank]
        gpu += 1
    for rank in range(copies):
        answer.gpu[gpu] = missing[rank]
        gpu += 1
    for rank in range(copies, missing.shape[0]):
        answer.cpu[cpu] = missing[rank]
        cpu += 1
    for rank in range(waited[copies], late.shape[0]):
        answer.cpu[cpu] = late[rank]
        cpu += 1
    for rank in range(demoted[copies]):
        answer.cpu[cpu] = ready[rank]
        cpu += 1
    lead_ns = float(end_ns[copies] - link_ns[copies])
    wishes = _wishes(tables, coming, gate.free_slots, lead_ns, answer) if look else 0
    return gpu, cpu, wishes, copies


@numba.njit(cache=True)
def _sides(gate: Gate) -> tuple[IntArray, IntArray, IntArray]:
    """Active experts: there, lightest first; on their way, earliest first; missing, heaviest first."""
    experts = gate.active.shape[0]
    ready = np.empty(experts, dtype=np.int64)
    late = np.empty(experts, dtype=np.int64)
    missing = np.empty(experts, dtype=np.int64)
    readies = lates = misses = 0
    for expert in range(experts):
        if not gate.active[expert]:
            continue
        if gate.arrival_ns[expert] == 0:
            _insert(ready, readies, expert, gate.cpu_ns, 1)
            readies += 1
        elif gate.arrival_ns[expert] > 0:
            _insert(late, lates, expert, gate.arrival_ns, 1)
            lates += 1
        else:
            _insert(missing, misses, expert, gate.cpu_ns, -1)
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
def _no_tables() -> _Tables:
    return _Tables(
        np.zeros((0, 0), dtype=np.int64),
        np.zeros((0, 0), dtype=np.int64),
        np.zeros((0, 0), dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        np.zeros((1, 1)),
        2,
    )


@numba.njit(cache=True)
def _tables(coming: Coming, slots: int, code: PolicyCode) -> _Tables:
    layers, experts = coming.cpu_ns.shape
    order = np.empty((layers, experts), dtype=np.int64)
    tables_ns = np.zeros((layers, experts + 1), dtype=np.int64)
    last_ns = np.zeros((layers, experts + 1), dtype=np.int64)
    max_copies = np.zeros(layers, dtype=np.int64)
    demoted = np.zeros(experts + 1, dtype=np.int64)
    for layer in range(layers):
        cpu_ns, gpu_ns, held = coming.cpu_ns[layer], coming.gpu_ns[layer], coming.held[layer]
        if code.expected:
            max_copies[layer] = fill_expected_table(
                cpu_ns,
                gpu_ns,
                coming.probability[layer],
                held,
                coming.dense_ns[layer],
                coming.copy_ns[layer],
                slots,
                code.spread,
                NEGLIGIBLE_NS,
                order[layer],
                tables_ns[layer],
                last_ns[layer],
            )
            continue
        there = np.empty(experts, dtype=np.int64)
        held_here = wanted = 0
        for expert in range(experts):
            if held[expert]:
                _insert(there, held_here, expert, cpu_ns, 1)
                held_here += 1
            elif cpu_ns[expert] > NEGLIGIBLE_NS:
                _insert(order[layer], wanted, expert, cpu_ns, -1)
                wanted += 1
        fill_layer_table(
            _whole(cpu_ns, order[layer], wanted),
            _whole(gpu_ns, order[layer], wanted),
            _whole(cpu_ns, there, held_here),
            _whole(gpu_ns, there, held_here),
            coming.dense_ns[layer],
            wanted,
            True,
            tables_ns[layer],
            last_ns[layer],
            demoted,
        )
        max_copies[layer] = wanted
    lookahead = 1 if layers == 1 else 2
    value, _ = lead_dp(
        tables_ns,
        last_ns,
        max_copies,
        coming.dense_ns,
        coming.copy_ns,
        slots,
        1,
        lookahead,
        np.full(layers + 1, np.inf),
        np.zeros(slots + 1),
    )
    return _Tables(order, tables_ns, last_ns, max_copies, value, lookahead)


@numba.njit(cache=True)
def _whole(values: FloatArray, experts: IntArray, length: int) -> IntArray:
    chosen = np.empty(length, dtype=np.int64)
    for rank in range(length):
        chosen[rank] = int(values[experts[rank]])
    return chosen


@numba.njit(cache=True)
def _best_split(
    end_ns: IntArray, link_ns: IntArray, tables: _Tables, coming: Coming, slots: int, look: bool
) -> int:
    best, best_total = 0, np.inf
    for copies in range(end_ns.shape[0]):
        total = float(end_ns[copies])
        if look:
            step_ns = float(coming.copy_ns[0])
            lead_ns = min(float(end_ns[copies] - link_ns[copies]), slots * step_ns)
            total += value_at(tables.value[0], lead_ns, step_ns)
        if total < best_total:
            best, best_total = copies, total
    return best


@numba.njit(cache=True)
def _wishes(tables: _Tables, coming: Coming, slots: int, lead_ns: float, answer: Answer) -> int:
    copies, _, _ = follow(
        tables.tables_ns,
        tables.last_ns,
        tables.max_copies,
        coming.dense_ns,
        coming.copy_ns,
        slots,
        1,
        tables.lookahead,
        np.full(tables.max_copies.shape[0] + 1, np.inf),
        tables.value,
        min(lead_ns, float(slots * coming.copy_ns[0])),
    )
    wishes = 0
    for layer in range(copies.shape[0]):
        for rank in range(copies[layer]):
            answer.wish_ahead[wishes] = layer + 1
            answer.wish_expert[wishes] = tables.order[layer, rank]
            wishes += 1
    return wishes
