"""Forecasts that take the host time: made after a gate, used from the first gate that finds them finished."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from prescope.formulation.forecast import Forecast

Forecaster = Callable[[int, int], Forecast]
"""``forecast(layer, horizon)`` as `prescope.predictor.Predictor.predict`."""


class PredictionLane:
    """Keeps what was forecast after each gate until a later gate may use it.

    Parameters
    ----------
    forecast
        Asked once per source layer and horizon.
    layers
        Layers of the step.
    reach
        Farthest horizon asked for.
    """

    def __init__(self, forecast: Forecaster, *, layers: int, reach: int) -> None:
        self._forecast, self._layers, self._reach = forecast, layers, reach
        self._said: dict[int, tuple[Forecast, ...]] = {}
        self._ready_ns: dict[int, int] = {}
        self._newest = -1
        self._lock = Lock()

    def announce(self, source: int, ready_ns: int) -> Callable[[], None]:
        """Forecasts after the gate of ``source`` will be finished at ``ready_ns``; returns their work.

        The work may be done on any thread, more than once, and before anything else is observed.
        """
        self._ready_ns[source] = ready_ns
        return lambda: self._make(source)

    def now(self, source: int) -> None:
        """Forecasts after this gate cost nothing and serve at once."""
        self._newest = source

    def at(self, layer: int, gate_ns: int) -> tuple[Forecast, ...]:
        """The newest finished forecasts, of layers ``layer + 1``, ``layer + 2`` and on.

        Made here where nobody has made them yet.
        """
        while self._ready_ns.get(self._newest + 1, gate_ns + 1) <= gate_ns and self._newest + 1 <= layer:
            self._newest += 1
        self._make(self._newest)
        return self._said[self._newest][layer - self._newest :]

    def _make(self, source: int) -> None:
        with self._lock:
            # What a newer gate has superseded is not made any more: its inputs may be gone.
            if source not in self._said and source >= self._newest:
                ahead = max(0, min(self._reach, self._layers - 1 - source))
                self._said[source] = tuple(self._forecast(source, horizon) for horizon in range(1, ahead + 1))
                for old in [known for known in self._said if known < self._newest]:
                    del self._said[old]
