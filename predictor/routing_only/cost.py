"""Measured time of a gate's forecasts."""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns

import numpy as np
import torch

from prescope.predictor.routing_only.model import COST_ROWS, RoutingOnlyModel
from prescope.predictor.routing_only.predictor import RoutingOnly

_WARM_UP = 3


def prediction_times(
    model: RoutingOnlyModel, *, repeats: int = 20, seed: int = 0
) -> tuple[tuple[int, int], ...]:
    """Time of the forecasts of all horizons after each gate, of `COST_ROWS` rows, in nanoseconds.

    From the gate's arrays to the last horizon's `Forecast` of the step, on one core of this machine; the
    median is taken. After the last gate nothing is left to predict.

    Parameters
    ----------
    model
        Trained or not: its values do not matter.
    repeats
        Steps measured.
    seed
        Of the random gates.
    """
    columns = [_layers(model, rows, repeats, seed) for rows in COST_ROWS]
    return tuple((one, many) for one, many in zip(*columns, strict=True))


def _layers(model: RoutingOnlyModel, rows: int, repeats: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.rand(rows, model.experts, generator=generator).argsort(dim=1)[:, : model.top_k]
    weights = torch.full(ids.shape, 1.0 / model.top_k)
    predictor = RoutingOnly(model)
    taken: list[list[int]] = [[] for _ in range(model.layers)]
    for step in range(repeats + _WARM_UP):
        predictor.begin_step(rows, sequences=np.arange(rows))
        for layer in range(model.layers):
            began = perf_counter_ns()
            predictor.observe(layer, None, ids, weights)
            reach = min(model.horizons, model.layers - 1 - layer)
            for horizon in range(1, reach + 1):
                predictor.predict(layer, horizon)
            # The first steps compile, and find cold caches.
            if step >= _WARM_UP:
                taken[layer].append(perf_counter_ns() - began if reach else 0)
    return [round(median(times)) for times in taken]
