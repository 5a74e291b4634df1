"""The same layer's demand in the previous step of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.predictor.rows import chosen_rows, ids_of
from prescope.predictor.sequence_memory import SequenceMemory
from prescope.predictor.shares import check_target, expert_counts, forecast_from_shares

if TYPE_CHECKING:
    from torch import Tensor


class PreviousStep:
    """Repeats the shares of the last step that reached the layer; uniform before the first.

    Of a single row it says that it chooses what its sequence's previous token chose.

    Parameters
    ----------
    layers, experts, top_k
        Shape of the model.
    """

    name = "previous-step"

    def __init__(self, *, layers: int, experts: int, top_k: int) -> None:
        self._shares = np.full((layers, experts), top_k / experts)
        self._memory = SequenceMemory(prior=self._shares, top_k=top_k)
        self._tokens = 0

    def known_counts(self) -> IntArray | None:
        """Nothing is known beforehand; see `Predictor.known_counts`."""
        return None

    def begin_step(
        self, tokens: int, *, sequences: IntArray | None = None, token_ids: IntArray | None = None
    ) -> None:
        """Announce a step; see `Predictor.begin_step`."""
        self._tokens = tokens
        self._memory.begin_step(tokens, sequences)

    def observe(self, layer: int, hidden: Tensor | None, indices: Tensor, weights: Tensor | None) -> None:
        """Keep a gate's shares; see `Predictor.observe`."""
        if indices.shape[0]:
            self._memory.observe(layer, ids_of(indices), None)
            self._shares[layer] = expert_counts(indices, self._shares.shape[1]) / indices.shape[0]

    def predict_tokens(self, layer: int, horizon: int) -> FloatArray:
        """What each row's previous token chose, float64 ``[tokens, experts]``; uniform without one."""
        layers, experts = self._shares.shape
        ids, _ = self._memory.last(check_target(layer, horizon, layers))
        chosen = chosen_rows(ids, experts)
        chosen[(ids < 0).all(axis=1)] = ids.shape[1] / experts
        return chosen

    def predict(self, layer: int, horizon: int) -> Forecast:
        """Shares of the layer in its last step; see `Predictor.predict`."""
        target = check_target(layer, horizon, self._shares.shape[0])
        return forecast_from_shares(self._shares[target], self._tokens)
