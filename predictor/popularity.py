"""Each expert's long-run share of a layer's tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.predictor.shares import check_target, expert_counts, forecast_from_shares

if TYPE_CHECKING:
    from torch import Tensor


class Popularity:
    """Shares averaged over all tokens seen, starting from a prior.

    Parameters
    ----------
    layers, experts, top_k
        Shape of the model.
    prior
        Share of each expert, float ``[layers, experts]`` (a row sums to ``top_k``); uniform when ``None``.
    prior_tokens
        How many tokens the prior counts for.
    """

    name = "popularity"

    def __init__(
        self,
        *,
        layers: int,
        experts: int,
        top_k: int,
        prior: FloatArray | None = None,
        prior_tokens: int = 64,
    ) -> None:
        shape = (layers, experts)
        start = np.full(shape, top_k / experts) if prior is None else np.asarray(prior, dtype=np.float64)
        if start.shape != shape or not np.isfinite(start).all() or start.min() < 0:
            raise ValueError(f"expected a finite prior >= 0 of shape {shape}, got shape {start.shape}")
        self._sums = start * prior_tokens
        self._seen = np.full(layers, float(prior_tokens))
        self._tokens = 0

    def known_counts(self) -> IntArray | None:
        """Nothing is known beforehand; see `Predictor.known_counts`."""
        return None

    def begin_step(
        self, tokens: int, *, sequences: IntArray | None = None, token_ids: IntArray | None = None
    ) -> None:
        """Announce a step; see `Predictor.begin_step`."""
        self._tokens = tokens

    def observe(self, layer: int, hidden: Tensor | None, indices: Tensor, weights: Tensor | None) -> None:
        """Count a gate; see `Predictor.observe`."""
        self._sums[layer] += expert_counts(indices, self._sums.shape[1])
        self._seen[layer] += indices.shape[0]

    def predict_tokens(self, layer: int, horizon: int) -> FloatArray:
        """The same shares for every row, float64 ``[tokens, experts]``."""
        target = check_target(layer, horizon, self._sums.shape[0])
        shares = np.minimum(self._sums[target] / self._seen[target], 1.0)
        return np.repeat(shares[None], self._tokens, axis=0)

    def predict(self, layer: int, horizon: int) -> Forecast:
        """Long-run shares of the layer; see `Predictor.predict`."""
        target = check_target(layer, horizon, self._sums.shape[0])
        return forecast_from_shares(self._sums[target] / self._seen[target], self._tokens)
