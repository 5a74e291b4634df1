"""What a compiled gate decision reads and writes: plain arrays and numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]


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
