"""A predictor's forecasts of recorded batches, laid out as instances carry them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from prescope.formulation.checks import require_int
from prescope.formulation.demand import PredictedDemand
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
    shape = (min(horizons, trace.layers), trace.layers, trace.meta.experts)
    needed, expected = np.zeros(shape), np.zeros(shape)
    for step, layer in replay(predictor, trace, steps):
        if layer < 0:
            needed, expected = np.zeros(shape), np.zeros(shape)
        for horizon in range(1, min(horizons, trace.layers - 1 - layer) + 1):
            forecast = predictor.predict(layer, horizon)
            needed[horizon - 1, layer + horizon] = forecast.probability
            expected[horizon - 1, layer + horizon] = forecast.expected_tokens
        if layer == trace.layers - 1:
            yield (
                step,
                PredictedDemand(probabilities=needed, expected_tokens=expected, source=predictor.name),
            )
