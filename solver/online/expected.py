"""Gate policy ``expected``: link time planned from calibrated probabilities, re-planned at every gate."""

from __future__ import annotations

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.solver.online.gate_arrays import Coming, Gate, PolicyCode, new_answer
from prescope.solver.online.guard import GuardMemory
from prescope.solver.online.kernel import decide
from prescope.solver.online.state import GateDecision, GateState, LayerForecast

LAYERS_AHEAD = 12
"""Layers that the plan of policy ``expected`` reaches ahead, where lookahead and forecasts allow."""

SPREAD = 0.5
"""Share of independent variance; experts of a layer are not independent: each token takes a fixed number."""

GUARD = 0.01
"""Share of the time that prefetch may lose, over the latest gates, before the policy by name rests it."""


class ExpectedPolicy:
    """Plans the link over the next layers from expected costs, in one compiled call.

    Every coming layer becomes a table of its expected length by the number of experts brought ahead; the
    lead DP over the tables says what the link's time is worth. At the gate the layer's true counts decide
    how many experts to copy now, which late copies to drop, and which experts the host computes.

    Parameters
    ----------
    ahead
        Layers to look ahead; the instance's lookahead where that is less.
    spread
        Share of the experts' independent variance that the expected maximum of host and device takes into
        account; 0 takes the maximum of the expectations.
    guard
        Prefetch rests while it loses more than this share of the time against the same gates without it, and
        is taken up again when it would gain as much; forecasts are corrected by what came of earlier ones.
        0 is no guard. It looks back over the latest gates, of earlier steps too (`memory`); only the compiled
        control keeps it.
    waits
        Whether a copy that would run into the next gate is started only where that is worth what the copies
        of that gate would have to wait (`prescope.solver.online.overlap`).
    """

    name = "expected"

    def __init__(
        self,
        *,
        ahead: int = LAYERS_AHEAD,
        spread: float = SPREAD,
        guard: float = 0.0,
        waits: bool = True,
    ) -> None:
        if ahead < 1:
            raise ValueError(f"expected ahead >= 1, got {ahead}")
        if not 0.0 <= spread <= 1.0:
            raise ValueError(f"expected spread in [0, 1], got {spread}")
        if not 0.0 <= guard < 1.0:
            raise ValueError(f"expected guard in [0, 1), got {guard}")
        self.code = PolicyCode(ahead=ahead, copies=0, expected=True, spread=spread, guard=guard, waits=waits)
        self.memory = GuardMemory.fresh(ahead) if guard > 0.0 else None

    def horizon(self, lookahead: int) -> int:
        """How many layers ahead it uses; see `GatePolicy.horizon`."""
        return min(self.code.ahead, lookahead)

    def decide(self, state: GateState) -> GateDecision:
        """Decide a gate; see `GatePolicy.decide`."""
        return decide_by(self.code, state)


def decide_by(code: PolicyCode, state: GateState) -> GateDecision:
    """The compiled decision of a gate."""
    experts = state.active.shape[0]
    answer = new_answer(len(state.future), experts, slots=max(0, state.free_slots))
    gate = Gate(
        state.layer,
        state.gpu_ns,
        state.cpu_ns,
        state.active,
        state.arrival_ns,
        np.zeros(experts, dtype=np.bool_) if state.pinned is None else state.pinned,
        state.copy_ns,
        state.link_free_ns,
        state.host_free_ns,
        state.usable_slots,
        state.free_slots,
        state.host_computes,
    )
    gpu, cpu, wishes, copies = decide(gate, _stacked(state.future, experts), code, answer)
    on_device = tuple(answer.gpu[:gpu].tolist())
    return GateDecision(
        gpu=on_device,
        cpu=tuple(answer.cpu[:cpu].tolist()),
        demand=on_device[gpu - copies :],
        prefetch=tuple(
            zip(answer.wish_ahead[:wishes].tolist(), answer.wish_expert[:wishes].tolist(), strict=True)
        ),
        value_ns=answer.scratch.value[1] if code.waits and wishes else None,
    )


def _stacked(future: tuple[LayerForecast, ...], experts: int) -> Coming:
    shape = (len(future), experts)
    return Coming(
        cpu_ns=np.array([layer.cpu_ns for layer in future], dtype=np.float64).reshape(shape),
        gpu_ns=np.array([layer.gpu_ns for layer in future], dtype=np.float64).reshape(shape),
        probability=np.array([layer.probability for layer in future], dtype=np.float64).reshape(shape),
        held=np.array([layer.held for layer in future], dtype=np.bool_).reshape(shape),
        dense_ns=_whole([layer.dense_ns for layer in future]),
        copy_ns=_whole([layer.copy_ns for layer in future]),
    )


def _whole(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
