"""What each token of the vocabulary chose whenever it came up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prescope.formulation.checks import require_finite, require_int
from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.predictor.rows import checked_prior, chosen_rows, forecast_from_rows, ids_of
from prescope.predictor.shares import check_target

if TYPE_CHECKING:
    from torch import Tensor

_UNKNOWN = 0


class TokenTable:
    """Shares per token id, learned from every gate observed; unknown tokens follow the prior.

    Parameters
    ----------
    layers, experts, top_k
        Shape of the model.
    prior
        Share of each expert, float ``[layers, experts]``; uniform when ``None``.
    prior_tokens
        How many occurrences the prior counts for.
    max_bytes
        Memory of the table; tokens that come up after it is full stay unknown.
    """

    name = "token-table"

    def __init__(
        self,
        *,
        layers: int,
        experts: int,
        top_k: int,
        prior: FloatArray | None = None,
        prior_tokens: float = 1.0,
        max_bytes: int = 2**28,
    ) -> None:
        require_finite("prior_tokens", prior_tokens, 1e-6)
        require_int("max_bytes", max_bytes, 0)
        self._layers, self._experts = layers, experts
        self._most = max_bytes // (4 * layers * (experts + 1))
        start = checked_prior(prior, layers, experts, top_k) * prior_tokens
        # The last column counts occurrences. Row 0 is for unknown tokens and stays as it is.
        self._first = np.append(start, np.full((layers, 1), prior_tokens), axis=1).astype(np.float32)
        self._sums = self._first[None].copy()
        self._row_of: dict[int, int] = {}
        self._rows = np.zeros(0, dtype=np.int64)

    def known_counts(self) -> IntArray | None:
        """Nothing is known beforehand; see `Predictor.known_counts`."""
        return None

    def begin_step(
        self, tokens: int, *, sequences: IntArray | None = None, token_ids: IntArray | None = None
    ) -> None:
        """Announce a step; see `Predictor.begin_step`."""
        if token_ids is None:
            self._rows = np.full(tokens, _UNKNOWN, dtype=np.int64)
            return
        self._rows = np.array([self._row(int(token)) for token in token_ids], dtype=np.int64)

    def observe(self, layer: int, hidden: Tensor | None, indices: Tensor, weights: Tensor | None) -> None:
        """Count a gate; see `Predictor.observe`."""
        known = self._rows != _UNKNOWN
        chosen = chosen_rows(ids_of(indices)[known], self._experts)
        # add.at: a token may come up twice in a step.
        np.add.at(self._sums[:, layer, :-1], self._rows[known], chosen.astype(np.float32))
        np.add.at(self._sums[:, layer, -1], self._rows[known], 1.0)

    def predict_tokens(self, layer: int, horizon: int) -> FloatArray:
        """Probability that each row chooses each expert, float64 ``[tokens, experts]``."""
        found = self._sums[self._rows, check_target(layer, horizon, self._layers)].astype(np.float64)
        shares: FloatArray = found[:, :-1] / found[:, -1:]
        return shares

    def predict(self, layer: int, horizon: int) -> Forecast:
        """Forecast of the batch; see `Predictor.predict`."""
        return forecast_from_rows(self.predict_tokens(layer, horizon))

    def _row(self, token: int) -> int:
        if token < 0:
            return _UNKNOWN
        row = self._row_of.get(token)
        if row is not None:
            return row
        if len(self._row_of) >= self._most:
            return _UNKNOWN
        row = 1 + len(self._row_of)
        if row == self._sums.shape[0]:
            # Doubling keeps the number of copies small.
            more = np.broadcast_to(self._first, (self._sums.shape[0], *self._first.shape))
            self._sums = np.concatenate([self._sums, more])
        self._row_of[token] = row
        return row
