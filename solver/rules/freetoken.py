"""FreeToken's rule: a fixed fraction of the misses is copied, the rest runs on the host meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.solver.online.state import GateDecision, GateState
from prescope.solver.rules.parameters import require_positive
from prescope.solver.rules.view import GateView


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeToken:
    """Bandwidth-matched split of the misses: link and host finish their shares together.

    Source: FreeToken's public code (its hybrid decode): of ``M`` misses the fraction
    ``q* = link / (link + host)`` of the two measured bandwidths is fetched, rounded to the neighbour that
    makes the slower side faster, and the rest is computed on the host. No prefetch.

    Reconstructed: bandwidths are those of one expert, ``1 / copy_ns`` and ``1 / host time``. Decided here:
    the heaviest misses are fetched (the code fetches the first by index); the host time is the mean over the
    misses at hand where ``adaptive``, else that of the lightest, as the code's figure is one of the machine
    and not of the batch.

    Parameters
    ----------
    adaptive
        Whether the host's rate is that of the layer's own misses.
    fraction_scale
        Multiplies ``q*``.
    """

    name: str = "freetoken"
    # Chosen on validation batches by `python -m benchmarks.tune_rules`.
    adaptive: bool = True
    fraction_scale: float = 0.8

    def __post_init__(self) -> None:
        require_positive("fraction_scale", self.fraction_scale)

    def horizon(self, lookahead: int) -> int:
        """Never looks ahead."""
        return 0

    def decide(self, state: GateState) -> GateDecision:
        """Decide a gate; see `prescope.solver.online.GatePolicy`."""
        view = GateView.of(state)
        return view.decide(view.copies(self._matched))

    def _matched(self, state: GateState, missing: IntArray) -> IntArray:
        if missing.shape[0] == 0:
            return missing
        host_ns = state.cpu_ns[missing].mean() if self.adaptive else state.cpu_ns[missing].min()
        whole_ns = float(host_ns + state.copy_ns)
        fraction = min(1.0, self.fraction_scale * float(host_ns) / whole_ns) if whole_ns > 0 else 0.0
        return missing[: _balanced(missing.shape[0], fraction)]


def _balanced(misses: int, fraction: float) -> int:
    """The integer next to ``fraction * misses`` whose slower side is faster; the smaller of equals."""
    low = int(np.floor(fraction * misses))
    high = min(misses, low + 1)
    slower = [max(copied * (1 - fraction), (misses - copied) * fraction) for copied in (low, high)]
    return low if slower[0] <= slower[1] else high
