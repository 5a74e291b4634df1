"""A coming layer's own gate, applied to the hidden state of the current one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.predictor.rows import chosen_rows
from prescope.predictor.shares import check_target, expert_counts, forecast_from_shares

if TYPE_CHECKING:
    from torch import Tensor

    # Maps a gating input of one layer to the experts that another layer's gate would choose from it.
    StaleRouter = Callable[[int, int, Tensor], Tensor]


class StaleGate:
    """Stale gate blended with a moving average; needs no training.

    A token is taken to choose each expert named by the stale gate with probability ``r``, and otherwise
    to follow the layer's moving-average shares. ``r`` is measured while running, per layer and horizon,
    as the share of named experts that the true gate chose as well. Before the first gate of a step the
    moving average alone speaks.

    Parameters
    ----------
    layers, experts, top_k
        Shape of the model.
    router
        ``router(source, target, hidden)`` gives the ids, int64 ``[tokens, top_k]``, that the gate of layer
        ``target`` chooses on the gating input of layer ``source``.
    prior
        Starting shares, float ``[layers, experts]``; uniform when ``None``.
    decay
        Weight of a decode step of one token in the moving averages; more tokens weigh more.
    initial_precision
        ``r`` before anything was measured.
    """

    name = "stale-gate"

    def __init__(
        self,
        *,
        layers: int,
        experts: int,
        top_k: int,
        router: StaleRouter,
        prior: FloatArray | None = None,
        decay: float = 0.05,
        initial_precision: float = 0.6,
    ) -> None:
        self._layers, self._experts = layers, experts
        self._router = router
        self._decay = decay
        uniform = np.full((layers, experts), top_k / experts)
        start = uniform if prior is None else np.asarray(prior, dtype=np.float64)
        if start.shape != (layers, experts):
            raise ValueError(f"expected a prior of shape {(layers, experts)}, got {start.shape}")
        self._shares = np.clip(start, 0.0, 1.0)
        self._precision = np.full((layers, layers), initial_precision)
        self._tokens = 0
        self._hidden: Tensor | None = None
        self._named: dict[tuple[int, int], IntArray] = {}

    def known_counts(self) -> IntArray | None:
        """Nothing is known beforehand; see `Predictor.known_counts`."""
        return None

    def begin_step(
        self, tokens: int, *, sequences: IntArray | None = None, token_ids: IntArray | None = None
    ) -> None:
        """Announce a step; see `Predictor.begin_step`."""
        self._tokens = tokens
        self._hidden = None
        self._named.clear()

    def observe(self, layer: int, hidden: Tensor | None, indices: Tensor, weights: Tensor | None) -> None:
        """Score earlier forecasts of the layer and keep its hidden state; see `Predictor.observe`."""
        self._hidden = hidden
        tokens = indices.shape[0]
        if not tokens:
            return
        weight = 1.0 - (1.0 - self._decay) ** tokens
        true_ids = indices.detach().cpu().numpy()
        for (target, horizon), named in [item for item in self._named.items() if item[0][0] == layer]:
            del self._named[target, horizon]
            right = (named[:, :, None] == true_ids[:, None, :]).any(axis=2).mean()
            self._precision[layer, horizon] += weight * (right - self._precision[layer, horizon])
        shares = expert_counts(indices, self._experts) / tokens
        self._shares[layer] += weight * (shares - self._shares[layer])

    def predict_tokens(self, layer: int, horizon: int) -> FloatArray:
        """Each row's stale choices, hedged, float64 ``[tokens, experts]``."""
        target = check_target(layer, horizon, self._layers)
        if layer < 0 or self._hidden is None or not self._tokens:
            return np.repeat(self._shares[target][None], self._tokens, axis=0)
        ids = self._named.get((target, horizon))
        if ids is None:
            ids = self._router(layer, target, self._hidden).detach().cpu().numpy()
            self._named[target, horizon] = ids
        precision = float(self._precision[target, horizon])
        rows = chosen_rows(ids, self._experts)
        hedged: FloatArray = np.minimum(1.0, rows * precision + (1.0 - precision) * self._shares[target])
        return hedged

    def predict(self, layer: int, horizon: int) -> Forecast:
        """Stale choices of the tokens, hedged by the moving average; see `Predictor.predict`."""
        target = check_target(layer, horizon, self._layers)
        if layer < 0 or self._hidden is None or not self._tokens:
            return forecast_from_shares(self._shares[target], self._tokens)
        ids = self._router(layer, target, self._hidden)
        self._named[target, horizon] = ids.detach().cpu().numpy()
        counts = expert_counts(ids, self._experts)
        precision = float(self._precision[target, horizon])
        floor = (1.0 - precision) * self._shares[target]
        named = np.minimum(1.0, precision + floor)
        missed = (1.0 - named) ** counts * (1.0 - floor) ** (self._tokens - counts)
        return Forecast(
            expected_tokens=counts * named + (self._tokens - counts) * floor, probability=1.0 - missed
        )
