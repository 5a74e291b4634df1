"""A predictor whose time is taken."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from prescope.formulation.demand import IntArray
from prescope.formulation.forecast import Forecast
from prescope.predictor.base import Predictor

if TYPE_CHECKING:
    from torch import Tensor


class Stopwatch:
    """Passes everything on to a predictor and adds up how long that takes.

    Parameters
    ----------
    predictor
        The one that predicts.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self.elapsed_ns = 0

    @property
    def name(self) -> str:
        """Name of the predictor."""
        return self._predictor.name

    def known_counts(self) -> IntArray | None:
        """As the predictor says."""
        return self._predictor.known_counts()

    def begin_step(
        self, tokens: int, *, sequences: IntArray | None = None, token_ids: IntArray | None = None
    ) -> None:
        """Announce a step, timed."""
        began = perf_counter_ns()
        self._predictor.begin_step(tokens, sequences=sequences, token_ids=token_ids)
        self.elapsed_ns += perf_counter_ns() - began

    def observe(self, layer: int, hidden: Tensor | None, indices: Tensor, weights: Tensor | None) -> None:
        """Report a gate, timed."""
        began = perf_counter_ns()
        self._predictor.observe(layer, hidden, indices, weights)
        self.elapsed_ns += perf_counter_ns() - began

    def predict(self, layer: int, horizon: int) -> Forecast:
        """Ask for a forecast, timed."""
        began = perf_counter_ns()
        forecast = self._predictor.predict(layer, horizon)
        self.elapsed_ns += perf_counter_ns() - began
        return forecast
