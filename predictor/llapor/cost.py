"""Measured time of a source's forecasts."""

from __future__ import annotations

from statistics import median
from time import thread_time_ns

import numpy as np
import torch

from prescope.predictor.llapor.model import LlaporModel
from prescope.predictor.llapor.predictor import Llapor

ROWS = (1, 32)
"""Batch sizes measured."""


def prediction_times(model: LlaporModel, *, repeats: int = 30, seed: int = 0) -> tuple[tuple[int, int], ...]:
    """Time of the forecasts of all horizons after each gate, of `ROWS` rows, in nanoseconds.

    From the gate's arrays to the last horizon's `Forecast`, in time of one core of this machine, which other
    work on it hardly changes; the source before the first gate counts from the start of the step. The median
    is taken.

    Parameters
    ----------
    model
        Trained or not: its values do not matter.
    repeats
        Steps measured.
    seed
        Of the random gates.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        columns = [_steps(model, rows, repeats, seed) for rows in ROWS]
    finally:
        torch.set_num_threads(threads)
    return tuple((int(one), int(many)) for one, many in zip(*columns, strict=True))


def _steps(model: LlaporModel, rows: int, repeats: int, seed: int) -> list[int]:
    facts = model.facts
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, facts.hidden_size, generator=generator)
    ids = torch.rand(rows, facts.experts, generator=generator).argsort(dim=1)[:, : facts.top_k]
    weights = torch.full(ids.shape, 1.0 / facts.top_k)
    predictor = Llapor(model)
    sequences, tokens = np.arange(rows), np.zeros(rows, dtype=np.int64)
    taken: list[list[int]] = [[] for _ in range(facts.layers)]
    for step in range(repeats + 3):
        for layer in range(-1, facts.layers):
            began = thread_time_ns()
            if layer < 0:
                predictor.begin_step(rows, sequences=sequences, token_ids=tokens)
            else:
                predictor.observe(layer, hidden, ids, weights)
            source = layer + 1
            if source == facts.layers:
                continue
            for horizon in range(1, model.networks[source].horizons + 1):
                predictor.predict(layer, horizon)
            # The first steps find cold caches.
            if step >= 3:
                taken[source].append(thread_time_ns() - began)
    return [round(median(times)) for times in taken]
