"""A gate as the rules see it: who is ready, late or missing, and what a decision would lead to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.online.state import GateDecision, GateState, LayerForecast


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GateView:
    """The activated experts of a gate, sorted.

    Parameters
    ----------
    state
        The gate.
    ready, missing
        On the device, and without a copy; heaviest on the host first (then on the device), int64.
    late
        Their copy is under way; earliest first, int64.
    """

    state: GateState
    ready: IntArray
    late: IntArray
    missing: IntArray

    @classmethod
    def of(cls, state: GateState) -> GateView:
        """Sort the experts of a gate; of equals the lower index comes first."""
        weights = (-state.cpu_ns, -state.gpu_ns)
        return cls(
            state=state,
            ready=by(np.flatnonzero(state.active & (state.arrival_ns == 0)), *weights),
            late=by(np.flatnonzero(state.active & (state.arrival_ns > 0)), state.arrival_ns),
            missing=by(np.flatnonzero(state.active & (state.arrival_ns < 0)), *weights),
        )

    def copies(self, wanted: Callable[[GateState, IntArray], IntArray]) -> IntArray:
        """The missing experts that ``wanted`` picks where there is a choice.

        All of them where the host cannot compute, none where no slot can take a copy.
        """
        if not self.state.host_computes:
            return self.missing
        if self.state.usable_slots == 0:
            return self.missing[:0]
        return wanted(self.state, self.missing)

    def decide(self, copied: IntArray, prefetch: tuple[tuple[int, int], ...] = ()) -> GateDecision:
        """Run what is ready, then what arrives, then ``copied`` on the device, the rest on the host."""
        chosen = set(copied.tolist())
        return GateDecision(
            gpu=(*self.ready.tolist(), *self.late.tolist(), *copied.tolist()),
            cpu=tuple(expert for expert in self.missing.tolist() if expert not in chosen),
            demand=tuple(copied.tolist()),
            prefetch=prefetch,
        )

    def outcome(self, decision: GateDecision) -> tuple[int, int]:
        """End of the layer, and when the link is free again, both counted from the gate.

        Device and link as `prescope.formulation.evaluate` times them: a copy waits for the slot of an
        expert of this layer where all usable slots are taken.
        """
        state = self.state
        demand = set(decision.demand)
        device, link, copied = 0, state.link_free_ns, 0
        freed: list[int] = []
        for expert in decision.gpu:
            if expert in demand:
                if copied >= state.usable_slots:
                    link = max(link, freed[copied - state.usable_slots])
                link += state.copy_ns
                device = max(device, link) + int(state.gpu_ns[expert])
                freed.append(device)
                copied += 1
            else:
                device = max(device, int(state.arrival_ns[expert])) + int(state.gpu_ns[expert])
        if not decision.cpu:
            return device, link
        host = state.host_free_ns + sum(int(state.cpu_ns[expert]) for expert in decision.cpu)
        return max(device, host), link


def by(experts: IntArray, *keys: IntArray | FloatArray) -> IntArray:
    """Experts in ascending order of the first key, of equals the next, and then of themselves."""
    ordered: IntArray = experts[np.lexsort([key[experts] for key in reversed(keys)])]
    return ordered


def likely(forecast: LayerForecast) -> IntArray:
    """Experts of a coming layer that a copy may serve, those with the most expected work first."""
    # Host times first: they grow faster with the tokens and so tell experts apart better.
    return by(np.flatnonzero(~forecast.held & (forecast.probability > 0)), -forecast.cpu_ns, -forecast.gpu_ns)


def window_copies(state: GateState, end_ns: int, link_ns: int) -> int:
    """How many copies for the next layer the link can end before that layer's gate.

    ``end_ns`` is the end of this layer, ``link_ns`` when its own copies are done; 0 at a batch's start.
    """
    following = state.future[0]
    return int(max(0, end_ns + following.dense_ns - link_ns) // max(1, following.copy_ns))
