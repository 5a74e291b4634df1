"""Costs and state of a step over a pool of rows as plain arrays, for compiled control."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.step_state import NEVER
from prescope.solver.online.gate_arrays import Answer, new_answer


class PoolSite(NamedTuple):
    """What stays the same during a step.

    Parameters
    ----------
    dense_ns, copy_ns, prediction_ns
        Per layer, int64 ``[L]``.
    gpu_ns
        Time of an expert by tokens, a row per layer or one for all; int64 ``[., T]`` with ``T`` at least two
        more than the tokens of the step.
    tokens
        Tokens of the step.
    lookahead
        Layers ahead whose likely experts are worth keeping.
    quota
        Most rows of one layer; -1 for one pool over all layers.
    least
        Least probability at which an expert is read ahead.
    guard
        As of `prescope.runtime.control.read_rules.ReadRules`.
    """

    dense_ns: IntArray
    copy_ns: IntArray
    prediction_ns: IntArray
    gpu_ns: IntArray
    tokens: int
    lookahead: int
    quota: int
    least: float
    guard: float


class PoolState(NamedTuple):
    """What a step has come to; changed in place.

    Parameters
    ----------
    clock
        As of `prescope.runtime.control.step_state.StepState`.
    arrival_ns
        When this step's copy of an expert lands, -1 without one; int64 ``[L, E]``.
    copies
        Layer, expert, row and gate of every copy in link order; int64 ``[L * E, 4]``.
    counters
        Copies so far, and experts of the last gate; int64 ``[2]``.
    answer
        The last gate's experts in order, and its wishes.
    likely
        Probability that an expert of a coming layer is needed, as last forecast; float64 ``[L, E]``.
    tokens
        Expected tokens of the coming layers, float64 ``[W, E]``.
    promise_ns
        What reading an expert ahead is expected to save, 0 where it is not; float64 ``[L, E]``.
    displaced
        Whom a read ahead displaced or would have, as ``layer * experts + expert`` or -1; int64 ``[L, E]``.
    watched_ns
        When a read ahead that was not made, as they rest, would have come; int64 ``[L, E]``.
    owners, places, trust_ns, pushed_out
        Of the `RowPool`; they outlive the step.
    """

    clock: IntArray
    arrival_ns: IntArray
    copies: IntArray
    counters: IntArray
    answer: Answer
    likely: FloatArray
    tokens: FloatArray
    promise_ns: FloatArray
    displaced: IntArray
    watched_ns: IntArray
    owners: IntArray
    places: IntArray
    trust_ns: FloatArray
    pushed_out: npt.NDArray[np.int8]


def new_pool_state(pool: RowPool, *, ahead: int) -> PoolState:
    """State at the start of a step with room for forecasts of ``ahead`` layers."""
    layers, experts = shape = pool.places.shape
    return PoolState(
        clock=np.zeros(3, dtype=np.int64),
        arrival_ns=np.full(shape, NEVER, dtype=np.int64),
        copies=np.zeros((layers * experts, 4), dtype=np.int64),
        counters=np.zeros(2, dtype=np.int64),
        answer=new_answer(ahead, experts, slots=len(pool)),
        likely=np.zeros(shape),
        tokens=np.zeros((ahead, experts)),
        promise_ns=np.zeros(shape),
        displaced=np.full(shape, NEVER, dtype=np.int64),
        watched_ns=np.zeros(shape, dtype=np.int64),
        owners=pool.owners,
        places=pool.places,
        trust_ns=pool.trust_ns,
        pushed_out=pool.pushed_out,
    )
