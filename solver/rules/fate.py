"""Fate's rule: the next layer's gate on this layer's input decides how many copies fit in the window."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.checks import require_int
from prescope.solver.online.state import GateDecision, GateState
from prescope.solver.rules.view import GateView, likely, window_copies


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """Every activated expert runs on the device; the window up to the next gate is filled with its copies.

    Source: Fate (arXiv 2502.12224): the gate of the next layer, fed with this layer's gate input, predicts
    what that layer needs; as many experts are prefetched as the computation up to its gate can hide,
    ``window / copy time``, the most popular first; wrong guesses are loaded on demand. The cache favours
    shallow layers, whose gates predict worst: `prescope.instances.favour_shallow` builds such residents,
    which are part of an instance.

    Reconstructed: the prediction is the forecast at hand (with known demand it is right). Its quantised
    copies are not modelled. Decided here: loads on demand go heaviest first. With no slot at all nothing can
    be copied and misses run on the host, as with ``on-demand``.

    Parameters
    ----------
    extra
        Copies beyond those that end before the next gate; they are started before it or not at all.
    """

    name: str = "fate"
    # Chosen on validation batches by `python -m benchmarks.tune_rules`.
    extra: int = 1

    def __post_init__(self) -> None:
        require_int("extra", self.extra, 0)

    def horizon(self, lookahead: int) -> int:
        """One layer at most."""
        return min(1, lookahead)

    def decide(self, state: GateState) -> GateDecision:
        """Decide a gate; see `prescope.solver.online.GatePolicy`."""
        view = GateView.of(state)
        copied = view.copies(lambda _, missing: missing)
        prefetch: tuple[tuple[int, int], ...] = ()
        if state.future and state.free_slots > 0:
            room = window_copies(state, *view.outcome(view.decide(copied))) + self.extra
            prefetch = tuple((1, expert) for expert in likely(state.future[0])[:room].tolist())
        return view.decide(copied, prefetch)
