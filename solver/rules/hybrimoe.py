"""HybriMoE's rule: a two-queue split, and leftover link time spent where a prefetch gains most."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from prescope.formulation.checks import require_int
from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.online.state import GateDecision, GateState, LayerForecast
from prescope.solver.rules.two_queues import two_queues
from prescope.solver.rules.view import GateView, by, likely

_NOBODY = np.zeros(0, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class HybriMoE:
    """Greedy split of a layer between host and link, then prefetch by simulated gain.

    Source: HybriMoE (DAC 2025, arXiv 2504.05897) and its public code. The host takes uncached experts of low
    load first, the link brings those of high load, the device runs what is cached or has arrived; an idle
    host helps with cached ones. Link time left over until the next gate prefetches the expert of a coming
    layer whose presence shortens that layer's simulated split most.

    Reconstructed: of a layer's experts only the heaviest that is not held is tried, which is the one of the
    greatest gain as all copies of a layer take equally long; coming layers are simulated by expected times.
    A late prefetch is waited for unless the host, being idle, would be done first. Its score-aware cache
    decides what stays between batches, which an instance fixes.

    Parameters
    ----------
    depth
        Coming layers that a prefetch may serve, at least 1; the paper looks at several.
    extra
        Copies beyond those that end before the next gate; they are started before it or not at all.
    """

    name: str = "hybrimoe"
    # Chosen on validation batches by `python -m benchmarks.tune_rules`.
    depth: int = 3
    extra: int = 1

    def __post_init__(self) -> None:
        require_int("depth", self.depth, 1)
        require_int("extra", self.extra, 0)

    def horizon(self, lookahead: int) -> int:
        """``depth`` layers at most."""
        return min(self.depth, lookahead)

    def decide(self, state: GateState) -> GateDecision:
        """Decide a gate; see `prescope.solver.online.GatePolicy`."""
        view = GateView.of(state)
        ready, late, missing = view.ready[::-1], view.late, view.missing
        gpu, cpu = state.gpu_ns.astype(np.float64), state.cpu_ns.astype(np.float64)
        copies, waited, demoted, end_ns, link_ns = two_queues(
            gpu[ready],
            cpu[ready],
            state.arrival_ns[late].astype(np.float64),
            gpu[late],
            cpu[late],
            gpu[missing],
            cpu[missing],
            float(state.copy_ns),
            float(state.link_free_ns),
            state.usable_slots,
            state.host_computes,
            float(state.host_free_ns),
        )
        demand = tuple(missing[:copies].tolist())
        return GateDecision(
            gpu=(*ready[demoted:].tolist(), *late[:waited].tolist(), *demand),
            cpu=(*missing[copies:].tolist(), *late[waited:].tolist(), *ready[:demoted].tolist()),
            demand=demand,
            prefetch=self._prefetch(state, end_ns, link_ns),
        )

    def _prefetch(self, state: GateState, end_ns: float, link_ns: float) -> tuple[tuple[int, int], ...]:
        if not state.future or state.free_slots == 0:
            return ()
        left_ns = end_ns + state.future[0].dense_ns - link_ns
        layers = [_Coming.of(forecast, state.host_computes) for forecast in state.future]
        wishes: list[tuple[int, int]] = []
        extra = self.extra
        while len(wishes) < state.free_slots:
            gains = [coming.gain_ns() for coming in layers]
            best = int(np.argmax(gains))
            if gains[best] <= 0:
                break
            left_ns -= layers[best].forecast.copy_ns
            if left_ns < 0:
                extra -= 1
                if extra < 0:
                    break
            wishes.append((best + 1, layers[best].take()))
        return tuple(wishes)


@dataclass(slots=True, kw_only=True)
class _Coming:
    """A coming layer whose heaviest missing experts are brought one by one."""

    forecast: LayerForecast
    held: IntArray
    missing: IntArray
    host_computes: bool
    taken: int = 0
    ends_ns: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, forecast: LayerForecast, host_computes: bool) -> _Coming:
        held = by(np.flatnonzero(forecast.held & (forecast.probability > 0)), forecast.cpu_ns)
        return cls(forecast=forecast, held=held, missing=likely(forecast), host_computes=host_computes)

    def gain_ns(self) -> float:
        """What one more of its experts on the device would save it."""
        if self.taken == self.missing.shape[0]:
            return 0.0
        # Kept: with several layers the same gain is asked for again and again.
        for taken in (self.taken, self.taken + 1):
            if taken == len(self.ends_ns):
                self.ends_ns.append(self._end_ns(taken))
        return self.ends_ns[self.taken] - self.ends_ns[self.taken + 1]

    def take(self) -> int:
        """The next expert to bring."""
        self.taken += 1
        return int(self.missing[self.taken - 1])

    def _end_ns(self, taken: int) -> float:
        forecast = self.forecast
        brought, rest = self.missing[:taken], self.missing[taken:]
        cpu: FloatArray = forecast.cpu_ns
        ready = by(np.concatenate([self.held, brought]), cpu)
        *_, end_ns, _ = two_queues(
            forecast.gpu_ns[ready],
            cpu[ready],
            _NOBODY,
            _NOBODY,
            _NOBODY,
            forecast.gpu_ns[rest],
            cpu[rest],
            float(forecast.copy_ns),
            0.0,
            max(1, rest.shape[0]),
            self.host_computes,
            0.0,
        )
        return end_ns
