"""Forecasts that take the host time: made after a gate, used from the first gate that finds them finished."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np

from prescope.formulation import PredictedDemand
from prescope.formulation.demand import FloatArray
from prescope.formulation.forecast import Forecast

Forecaster = Callable[[int, int], Forecast]
"""``forecast(layer, horizon)`` as `prescope.predictor.Predictor.predict`."""


class PredictionLane:
    """Keeps what was forecast after each gate until a later gate may use it.

    Parameters
    ----------
    forecast
        Asked once per source layer and horizon.
    layers, experts
        Shape of the step.
    reach
        Farthest horizon asked for.
    """

    def __init__(self, forecast: Forecaster, *, layers: int, experts: int, reach: int) -> None:
        self._forecast, self._layers, self._reach = forecast, layers, reach
        self._experts = experts
        self._said: dict[int, tuple[Forecast, ...]] = {}
        self._all: dict[int, tuple[Forecast, ...]] = {}
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

        Raises
        ------
        ValueError
            When one is not of all experts.
        """
        while self._ready_ns.get(self._newest + 1, gate_ns + 1) <= gate_ns and self._newest + 1 <= layer:
            self._newest += 1
        self._make(self._newest)
        return self._said[self._newest][layer - self._newest :]

    def foreseen(self, source: str) -> PredictedDemand | None:
        """All that was forecast; zero where nothing was, ``None`` where nothing was at all.

        Parameters
        ----------
        source
            Who made the forecasts.
        """
        with self._lock:
            made = {at: said for at, said in self._all.items() if said}
        if not made:
            return None
        horizons = max(len(said) for said in made.values())
        experts = next(iter(made.values()))[0].probability.shape[0]
        probabilities: FloatArray = np.zeros((horizons, self._layers, experts))
        expected_tokens = np.zeros_like(probabilities)
        for at, said in made.items():
            for ahead, forecast in enumerate(said):
                probabilities[ahead, at + 1 + ahead] = forecast.probability
                expected_tokens[ahead, at + 1 + ahead] = forecast.expected_tokens
        return PredictedDemand(
            probabilities=np.clip(probabilities, 0.0, 1.0), expected_tokens=expected_tokens, source=source
        )

    def _make(self, source: int) -> None:
        with self._lock:
            # What a newer gate has superseded is not made any more: its inputs may be gone.
            if source not in self._said and source >= self._newest:
                ahead = max(0, min(self._reach, self._layers - 1 - source))
                said = tuple(self._ask(source, horizon) for horizon in range(1, ahead + 1))
                self._said[source] = self._all[source] = said
                for old in [known for known in self._said if known < self._newest]:
                    del self._said[old]

    def _ask(self, source: int, horizon: int) -> Forecast:
        forecast = self._forecast(source, horizon)
        shape = forecast.probability.shape
        # Compiled code would spread a single expert's over all.
        if shape != (self._experts,):
            raise ValueError(
                f"expected a forecast of {self._experts} experts for layer {source + horizon}, got {shape}"
            )
        return forecast
