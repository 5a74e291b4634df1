"""A step's costs and state as plain arrays, for compiled control."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.online.gate_arrays import Answer, Coming, new_answer
from prescope.solver.online.guard import GuardMemory
from prescope.solver.online.recalibrate import Calibration, new_calibration

BoolArray = npt.NDArray[np.bool_]

NEVER = -1

# Places in `StepState.clock`.
LINK, LAYER_END, HOST_FREE = 0, 1, 2


class Site(NamedTuple):
    """What stays the same during a step.

    Parameters
    ----------
    dense_ns, copy_ns, prediction_ns
        Per layer, int64 ``[L]``.
    gpu_ns, cpu_ns
        Time of an expert by tokens, a row per layer or one for all; int64 ``[., T]`` with ``T`` at least two
        more than the tokens of the step.
    resident
        Pinned experts, bool ``[L, E]``.
    lookahead
        Layers ahead that copies may be issued, and forecasts read.
    host_computes
        Whether the host runs experts in place.
    tokens
        Tokens of the step.
    """

    dense_ns: IntArray
    copy_ns: IntArray
    prediction_ns: IntArray
    gpu_ns: IntArray
    cpu_ns: IntArray
    resident: BoolArray
    lookahead: int
    host_computes: bool
    tokens: int


class Shadow(NamedTuple):
    """Another course of a step; fields as of `StepState`."""

    clock: IntArray
    slot_free_ns: IntArray
    slot_of: IntArray
    arrival_ns: IntArray
    copies: IntArray
    counters: IntArray


class StepState(NamedTuple):
    """What a step has come to; changed in place.

    Parameters
    ----------
    clock
        When the link is free, the last layer ended and the host is free; int64 ``[3]``.
    slot_free_ns
        When each slot is free, -1 while its copy waits for a later layer; int64 ``[B]``.
    slot_of, arrival_ns
        Slot of each expert's copy and when it lands, -1 without one; int64 ``[L, E]``.
    copies
        Layer, expert, slot and gate of every copy in link order; int64 ``[L * E, 4]``.
    counters
        Copies so far, and of the last gate: device experts, host experts; int64 ``[3]``.
    answer
        The last gate's experts in order, and its wishes.
    coming
        Costs of the coming layers as last expected, ``[lookahead, E]`` and ``[lookahead]``.
    shadow
        What the step would have come to with prefetch; only while prefetch rests.
    calibration
        What was said of coming layers, and what came of it.
    trust_ns
        What prefetch has gained, see `prescope.runtime.control.guarded_gate`; float64 ``[4]``. It outlives
        the step, as the sums of the calibration do.
    """

    clock: IntArray
    slot_free_ns: IntArray
    slot_of: IntArray
    arrival_ns: IntArray
    copies: IntArray
    counters: IntArray
    answer: Answer
    coming: Coming
    shadow: Shadow
    calibration: Calibration
    trust_ns: FloatArray


def new_state(
    layers: int,
    experts: int,
    *,
    slots: int,
    ahead: int,
    link_ready_ns: int = 0,
    memory: GuardMemory | None = None,
) -> StepState:
    """State at the start of a step with room for forecasts of ``ahead`` layers."""
    # Without a guard nobody looks at the shadow and the calibration.
    guarded, memory = memory is not None, memory or GuardMemory.fresh(ahead)
    course = _course(layers, experts, slots, link_ready_ns)
    return StepState(
        **course._asdict(),
        answer=new_answer(ahead, experts, slots=slots),
        coming=Coming(
            cpu_ns=np.zeros((ahead, experts)),
            gpu_ns=np.zeros((ahead, experts)),
            probability=np.zeros((ahead, experts)),
            held=np.zeros((ahead, experts), dtype=np.bool_),
            dense_ns=np.zeros(ahead, dtype=np.int64),
            copy_ns=np.zeros(ahead, dtype=np.int64),
        ),
        shadow=_course(layers if guarded else 0, experts, slots, link_ready_ns),
        calibration=new_calibration(ahead if guarded else 0, experts, memory.sums),
        trust_ns=memory.trust_ns,
    )


def _course(layers: int, experts: int, slots: int, link_ready_ns: int) -> Shadow:
    shape = (layers, experts)
    clock = np.zeros(3, dtype=np.int64)
    clock[LINK] = link_ready_ns
    return Shadow(
        clock=clock,
        slot_free_ns=np.zeros(slots, dtype=np.int64),
        slot_of=np.full(shape, NEVER, dtype=np.int64),
        arrival_ns=np.full(shape, NEVER, dtype=np.int64),
        copies=np.zeros((layers * experts, 4), dtype=np.int64),
        counters=np.zeros(3, dtype=np.int64),
    )
