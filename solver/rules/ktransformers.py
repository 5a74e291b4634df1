"""KTransformers' rule: a static mask of hot experts on the device, everything else on the host."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.solver.online.state import GateDecision, GateState
from prescope.solver.rules.view import GateView


@dataclass(frozen=True, slots=True, kw_only=True)
class KTransformers:
    """Residents on the device, misses on the host, no copies.

    Source: KTransformers (SOSP 2025) and its public code, where a mask fixed at start says which experts the
    device holds. Its fast host kernels and its deferral of experts by one layer, which changes the model's
    output, are not modelled: host times are the instance's.

    The mask is the instance's residents; there is nothing to tune. Where the host cannot compute, a running
    batch must go on, so every missing expert is copied at its own gate, as by ``on-demand``; the offline
    method refuses such an instance.
    """

    name: str = "ktransformers"

    def horizon(self, lookahead: int) -> int:
        """Never looks ahead."""
        return 0

    def decide(self, state: GateState) -> GateDecision:
        """Decide a gate; see `prescope.solver.online.GatePolicy`."""
        view = GateView.of(state)
        return view.decide(view.copies(lambda _, missing: missing[:0]))
