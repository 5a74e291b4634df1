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
    """

    ahead: int
    copies: int
    expected: bool
    spread: float


class Gate(NamedTuple):
    """The layer at hand; fields as of `prescope.solver.online.GateState`."""

    layer: int
    gpu_ns: IntArray
    cpu_ns: IntArray
    active: BoolArray
    arrival_ns: IntArray
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
    ready = _sorted(gate.active & (gate.arrival_ns == 0), gate.cpu_ns, 1)
    late = _sorted(gate.active & (gate.arrival_ns > 0), gate.arrival_ns, 1)
    missing = _sorted(gate.active & (gate.arrival_ns < 0), gate.cpu_ns, -1)
    end_ns, waited, demoted, link_ns = split_costs(
        gate.gpu_ns[ready],
        gate.cpu_ns[ready],
        gate.arrival_ns[late],
        gate.gpu_ns[late],
        gate.cpu_ns[late],
        gate.gpu_ns[missing],
        gate.cpu_ns[missing],
        gate.copy_ns,
        gate.link_free_ns,
        gate.host_free_ns,
        gate.usable_slots,
        gate.host_computes,
    )
    copies = end_ns.shape[0] - 1
    if code.copies == 2 and gate.host_computes:
        copies = 0
    elif code.copies == 0 and gate.host_computes:
        copies = _best_split(end_ns, link_ns, tables, coming, gate.free_slots, look)
    gpu = cpu = 0
    for rank in range(demoted[copies], ready.shape[0]):
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
def _sorted(mask: BoolArray, key: IntArray, sign: int) -> IntArray:
    experts = np.flatnonzero(mask)
    # Stable, so that equal experts keep their ascending ids and runs repeat exactly.
    return experts[np.argsort(sign * key[experts], kind="mergesort")]


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
        wanted = np.flatnonzero(~held & (cpu_ns > NEGLIGIBLE_NS))
        wanted = wanted[np.argsort(-cpu_ns[wanted], kind="mergesort")]
        there = np.flatnonzero(held)
        there = there[np.argsort(cpu_ns[there], kind="mergesort")]
        fill_layer_table(
            cpu_ns[wanted].astype(np.int64),
            gpu_ns[wanted].astype(np.int64),
            cpu_ns[there].astype(np.int64),
            gpu_ns[there].astype(np.int64),
            coming.dense_ns[layer],
            wanted.shape[0],
            True,
            tables_ns[layer],
            last_ns[layer],
            demoted,
        )
        max_copies[layer] = wanted.shape[0]
        order[layer, : wanted.shape[0]] = wanted
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
