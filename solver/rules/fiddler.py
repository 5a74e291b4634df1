"""Fiddler's rule: an expert is loaded if that is cheaper than computing it on the host."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.demand import IntArray
from prescope.solver.online.state import GateDecision, GateState
from prescope.solver.rules.parameters import require_positive
from prescope.solver.rules.view import GateView


@dataclass(frozen=True, slots=True, kw_only=True)
class Fiddler:
    """Per expert, the cheaper of two: copy and run on the device, or run on the host.

    Source: Fiddler (arXiv 2402.07033) and its public code, which minimises the sum over experts of
    ``tokens * host time per token`` or one constant for a load, that is, each expert by itself. No prefetch.

    Reconstructed: host and device times come from the instance's cost curves instead of two constants
    measured per machine. Decided here: copies go heaviest first (the code goes by index); a layer's
    residents always stay on the device, as in the code.

    Parameters
    ----------
    load_weight
        What a load counts relative to its time alone. The rule looks at one expert at a time and so is
        blind to the queue at the link and to the host's; a weight is the one thing to tune.
    """

    name: str = "fiddler"
    # Chosen on validation batches by `python -m benchmarks.tune_rules`.
    load_weight: float = 1.0

    def __post_init__(self) -> None:
        require_positive("load_weight", self.load_weight)

    def horizon(self, lookahead: int) -> int:
        """Never looks ahead."""
        return 0

    def decide(self, state: GateState) -> GateDecision:
        """Decide a gate; see `prescope.solver.online.GatePolicy`."""
        view = GateView.of(state)
        return view.decide(view.copies(self._cheaper_to_load))

    def _cheaper_to_load(self, state: GateState, missing: IntArray) -> IntArray:
        load_ns = self.load_weight * (state.copy_ns + state.gpu_ns[missing])
        return missing[load_ns < state.cpu_ns[missing]]
