"""A predictor's forecasts of recorded batches, laid out as instances carry them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from prescope.formulation.checks import require_int
from prescope.formulation.demand import PredictedDemand
from prescope.formulation.forecast import Forecast
from prescope.instances import BatchStep, RoutingTrace
from prescope.predictor.base import Predictor
from prescope.predictor.replay import replay


def forecasts_from_trace(
    predictor: Predictor, trace: RoutingTrace, steps: Iterable[BatchStep], horizons: int
) -> Iterator[tuple[BatchStep, PredictedDemand]]:
    """Ask a predictor at every gate of recorded batches.

    Parameters
    ----------
    predictor
        Lives through the steps in order, as it would beside a running model.
    trace
        Recorded routing.
    steps
        As `prescope.instances.decode_batches` cuts them.
    horizons
        Layers ahead to ask for.

    Yields
    ------
    step, forecasts
        Entry ``[h - 1, l]`` was said at the gate of layer ``l - h``; for ``l = h - 1`` that is before the
        first gate of the step. What lies before that is zero: nothing was asked then.
    """
    require_int("horizons", horizons, 1)
    for step, layer in replay(predictor, trace, steps):
        if layer < 0:
            sheet = Sheet(trace, horizons)
        reach = min(horizons, trace.layers - 1 - layer)
        sheet.add(layer, [predictor.predict(layer, horizon) for horizon in range(1, reach + 1)])
        if layer == trace.layers - 1:
            yield step, sheet.demand(predictor.name)


class Sheet:
    """Collects the forecasts of a step.

    Parameters
    ----------
    trace
        Whose shape they have.
    horizons
        Layers ahead that are asked for.
    """

    def __init__(self, trace: RoutingTrace, horizons: int) -> None:
        shape = (min(horizons, trace.layers), trace.layers, trace.meta.experts)
        self._needed, self._expected = np.zeros(shape), np.zeros(shape)

    def add(self, layer: int, forecasts: Sequence[Forecast]) -> None:
        """Note what was said at the gate of a layer, for horizons from 1 on."""
        for horizon, forecast in enumerate(forecasts, start=1):
            self._needed[horizon - 1, layer + horizon] = forecast.probability
            self._expected[horizon - 1, layer + horizon] = forecast.expected_tokens

    def demand(self, source: str) -> PredictedDemand:
        """All that was noted; see `forecasts_from_trace`."""
        return PredictedDemand(probabilities=self._needed, expected_tokens=self._expected, source=source)
