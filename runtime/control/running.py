"""A running step as one object: compiled code is handed one thing instead of forty arrays."""

from __future__ import annotations

from typing import Any

import numba
from numba import types
from numba.experimental import structref

from prescope.formulation.demand import IntArray
from prescope.runtime.control.guarded_gate import run_gate
from prescope.runtime.control.step_state import LAYER_END, NEVER, Site, StepState
from prescope.solver.online.gate_arrays import PolicyCode


@structref.register
class _RunningType(types.StructRef):
    """Type of `Running` in compiled code."""


class Running(structref.StructRefProxy):
    """What stays the same in a step, its state, and the policy that decides it.

    Handing over each array anew takes longer than a small decision: 5 of 14 microseconds.

    Parameters
    ----------
    site, state, code
        As for `prescope.runtime.control.guarded_gate.run_gate`.
    """

    site: Site
    state: StepState
    code: PolicyCode

    def __new__(cls, site: Site, state: StepState, code: PolicyCode) -> Any:
        """Gather the three."""
        return structref.StructRefProxy.__new__(cls, site, state, code)  # type: ignore[no-untyped-call]


structref.define_proxy(Running, _RunningType, ["site", "state", "code"])  # type: ignore[no-untyped-call]

TOO_MANY = -1
"""Answer of `run_running_gate` where an expert has more tokens than the site's curves reach."""


@numba.njit(cache=True)
def run_running_gate(running: Running, layer: int, counts: IntArray, ahead: int, brought: IntArray) -> int:
    """Decide a gate as `prescope.runtime.control.guarded_gate.run_gate` does.

    Parameters
    ----------
    running, layer, counts, ahead
        The step, and the gate as for `run_gate`.
    brought
        Receives the experts of the layer whose copies have landed by its end, int64 ``[E]``.

    Returns
    -------
    int
        How many were brought, or `TOO_MANY`, when nothing was done.
    """
    site, state = running.site, running.state
    reach = site.gpu_ns.shape[1] - 2
    experts = counts.shape[0]
    for expert in range(experts):
        if counts[expert] > reach:
            return TOO_MANY
    run_gate(site, state, layer, counts, ahead, running.code)
    found = 0
    if layer >= 0:
        arrival_ns, end_ns = state.arrival_ns[layer], state.clock[LAYER_END]
        for expert in range(experts):
            if arrival_ns[expert] != NEVER and arrival_ns[expert] <= end_ns:
                brought[found] = expert
                found += 1
    return found
