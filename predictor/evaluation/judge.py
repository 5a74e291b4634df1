"""Compares what a predictor says at the gates of a trace with what was chosen there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray
from prescope.formulation.forecast import Forecast
from prescope.instances import BatchStep, RoutingTrace
from prescope.predictor.base import Predictor
from prescope.predictor.evaluation.tally import BatchTally, TokenTally
from prescope.predictor.evaluation.volume import hard_counts

Key = tuple[int, int]
"""Source layer (-1 is before the first gate of a step) and horizon."""

# Steps whose tokens are tallied together: numpy is slow on few rows.
_TOGETHER = 16


class Judge:
    """Keeps the tallies of every source and horizon.

    Parameters
    ----------
    trace
        Recorded routing, the truth.
    horizons
        Layers ahead that are judged.
    reference
        Popularity that Brier skill is measured against, ``[layers, experts]``.
    width
        Experts named by the wider recall.
    """

    def __init__(self, trace: RoutingTrace, *, horizons: int, reference: FloatArray, width: int) -> None:
        self._trace, self._horizons = trace, horizons
        top_k = trace.meta.top_k
        keys = [
            (source, horizon)
            for source in range(-1, trace.layers - 1)
            for horizon in range(1, self.reach(source) + 1)
        ]
        self.tokens = {
            key: TokenTally(top_k=top_k, width=width, reference=reference[sum(key)]) for key in keys
        }
        self.batches = {key: BatchTally() for key in keys}
        self._waiting: dict[Key, list[tuple[npt.NDArray[Any], ...]]] = {}

    def reach(self, source: int) -> int:
        """How many layers ahead a source is judged."""
        return min(self._horizons, self._trace.layers - 1 - source)

    def add(self, predictor: Predictor, step: BatchStep, source: int, forecasts: list[Forecast]) -> None:
        """Count the forecasts of a gate, for horizons from 1 on."""
        for horizon, forecast in enumerate(forecasts, start=1):
            target = source + horizon
            rows = _rows_of(predictor, source, horizon, forecast, len(step.rows))
            chosen = np.zeros(rows.shape, dtype=np.bool_)
            np.put_along_axis(chosen, self._trace.topk_ids[step.rows, target].astype(np.int64), True, axis=1)
            waiting = self._waiting.setdefault((source, horizon), [])
            counts = step.demand.counts[target]
            waiting.append(
                (rows.astype(np.float32), chosen, forecast.expected_tokens, forecast.probability, counts)
            )
            if len(waiting) == _TOGETHER:
                self._tally((source, horizon))

    def flush(self) -> None:
        """Tally what is waiting."""
        for key in list(self._waiting):
            self._tally(key)

    def _tally(self, key: Key) -> None:
        rows, chosen, expected, needed, counts = zip(*self._waiting.pop(key), strict=True)
        self.tokens[key].add(np.concatenate(rows), np.concatenate(chosen))
        hard = np.stack([hard_counts(one, self._trace.meta.top_k) for one in rows])
        self.batches[key].add(np.stack(expected), np.stack(needed), hard, np.stack(counts))


def _rows_of(
    predictor: Predictor, source: int, horizon: int, forecast: Forecast, tokens: int
) -> npt.NDArray[Any]:
    by_token = getattr(predictor, "predict_tokens", None)
    if by_token is not None:
        rows: npt.NDArray[Any] = by_token(source, horizon)
        if rows.shape != (tokens, forecast.probability.shape[0]):
            raise ValueError(
                f"expected probabilities of shape {(tokens, forecast.probability.shape[0])} from "
                f"{predictor.name!r}, got {rows.shape}"
            )
        return rows
    # Who speaks of the batch alone says the same of all its tokens.
    shares = np.minimum(forecast.expected_tokens / max(tokens, 1), 1.0)
    return np.repeat(shares[None], tokens, axis=0)
