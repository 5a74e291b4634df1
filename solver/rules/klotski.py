"""Klotski's rule: no host; hot experts are prefetched and computed first while the cold ones arrive."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from prescope.solver.online.state import GateDecision, GateState
from prescope.solver.rules.parameters import require_share
from prescope.solver.rules.view import GateView, likely


@dataclass(frozen=True, slots=True, kw_only=True)
class Klotski:
    """Every activated expert runs on the device; the next layer's hot ones are fetched one layer ahead.

    Source: Klotski (ASPLOS 2025, arXiv 2502.06888): while a layer computes, the hottest experts of the next
    MoE layer are prefetched; after its gate every other activated expert is transferred; hot ones are
    computed first, the rest in order of arrival, so that cold transfers hide behind hot computation.

    Reconstructed: hot experts are those with the most expected work by the forecast at hand, in place of the
    paper's correlation table; the paper's group of several batches is the one batch of the instance; weights
    of attention stay on the device. Decided here: cold transfers go heaviest first. With no slot at all
    nothing can be copied and misses run on the host, as with ``on-demand``.

    Parameters
    ----------
    hot_fraction
        Share of a layer's experts, rounded up, that may be prefetched; in the paper as many as a token takes.
    """

    name: str = "klotski"
    # Chosen on validation batches by `python -m benchmarks.tune_rules`.
    hot_fraction: float = 0.25

    def __post_init__(self) -> None:
        require_share("hot_fraction", self.hot_fraction)

    def horizon(self, lookahead: int) -> int:
        """One layer at most."""
        return min(1, lookahead)

    def decide(self, state: GateState) -> GateDecision:
        """Decide a gate; see `prescope.solver.online.GatePolicy`."""
        view = GateView.of(state)
        prefetch: tuple[tuple[int, int], ...] = ()
        if state.future and state.free_slots > 0:
            forecast = state.future[0]
            hot = likely(forecast)[: ceil(self.hot_fraction * forecast.held.shape[0])]
            prefetch = tuple((1, expert) for expert in hot.tolist())
        return view.decide(view.copies(lambda _, missing: missing), prefetch)
