"""Forecasts from what a batch's sequences chose lately; no hidden states needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.instances import NOT_RECORDED
from prescope.predictor.calibration.event_curve import anchor_weights
from prescope.predictor.routing_only.calibrated import calibrated
from prescope.predictor.routing_only.model import COST_ROWS, RoutingOnlyModel
from prescope.predictor.routing_only.scores import head_scores
from prescope.predictor.rows import forecast_from_rows, ids_of, weights_of
from prescope.predictor.sequence_memory import SequenceMemory
from prescope.predictor.shares import check_target

if TYPE_CHECKING:
    from torch import Tensor


class RoutingOnly:
    """Linear heads on the latest gates of each sequence, calibrated for tokens and for batches.

    Beyond the horizon of its heads it speaks from the sequence's slowest moving average, or from the prior.

    Parameters
    ----------
    model
        Trained numbers.
    """

    def __init__(self, model: RoutingOnlyModel) -> None:
        self._model = model
        self._memory = SequenceMemory(
            prior=model.prior.astype(np.float64), top_k=model.top_k, decays=model.settings.decays
        )
        self._tokens = 0
        self._begin()

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return self._model.kind

    def known_counts(self) -> IntArray | None:
        """Nothing is known beforehand; see `Predictor.known_counts`."""
        return None

    def cost_ns(self, layer: int, tokens: int) -> int:
        """Measured host time of all forecasts after the gate of ``layer`` for ``tokens`` rows.

        Linear between the two batch sizes measured; 0 where nothing was measured or nothing is predicted.
        """
        if not self._model.cost_ns or not 0 <= layer < self._model.layers or tokens < 1:
            return 0
        (one, many), (few, lots) = self._model.cost_ns[layer], COST_ROWS
        return max(0, round(one + (many - one) * (tokens - few) / (lots - few)))

    def begin_step(
        self, tokens: int, *, sequences: IntArray | None = None, token_ids: IntArray | None = None
    ) -> None:
        """Announce a step; see `Predictor.begin_step`."""
        self._tokens = tokens
        self._memory.begin_step(tokens, sequences)
        self._begin()

    def observe(self, layer: int, hidden: Tensor | None, indices: Tensor, weights: Tensor | None) -> None:
        """Keep a gate's choices; see `Predictor.observe`."""
        ids = ids_of(indices)
        width = ids.shape[1]
        scales = weights_of(weights) if self._model.settings.weights else None
        self._memory.observe(layer, ids, scales)
        self._ids[:, layer, :width] = ids
        if scales is not None:
            self._weights[:, layer, :width] = scales
        self._newer[:, :, layer] = self._memory.averages(layer)

    def predict_tokens(self, layer: int, horizon: int) -> FloatArray:
        """Probability that each row chooses each expert, float64 ``[tokens, experts]``."""
        target = check_target(layer, horizon, self._model.layers)
        if horizon > self._model.horizons:
            return self._beyond(layer, target).astype(np.float64)
        rows: FloatArray = self._said(layer)[0][horizon - 1].astype(np.float64)
        return rows

    def predict(self, layer: int, horizon: int) -> Forecast:
        """Forecast of the batch; see `Predictor.predict`."""
        target = check_target(layer, horizon, self._model.layers)
        return self._forecast(layer, horizon, target)

    def predict_next(self, layer: int, horizon: int) -> Forecast:
        """Forecast of layer ``layer + horizon - layers`` in the next step of the same sequences.

        Raises
        ------
        ValueError
            When the layer is not one of the next step within the horizon of the heads.
        """
        target = layer + horizon - self._model.layers
        if not 0 <= target < self._model.layers or not 1 <= horizon <= self._model.horizons:
            raise ValueError(
                f"expected a horizon in [1, {self._model.horizons}] that reaches the next step's "
                f"{self._model.layers} layers, got {layer} + {horizon}"
            )
        return self._forecast(layer, horizon, target)

    def _forecast(self, layer: int, horizon: int, target: int) -> Forecast:
        if horizon > self._model.horizons:
            return forecast_from_rows(self._beyond(layer, target))
        _, expected, needed = self._said(layer)
        return Forecast(expected_tokens=expected[horizon - 1], probability=needed[horizon - 1])

    def _beyond(self, layer: int, target: int) -> npt.NDArray[np.float32]:
        """Rows of a layer that no head reaches."""
        decays = self._model.settings.decays
        if not decays:
            return np.repeat(self._model.prior[target][None], self._tokens, axis=0)
        averages = self._newer if target <= layer else self._older
        return averages[int(np.argmax(decays)), :, target]

    def _said(self, layer: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """What the heads of a gate say, all horizons: see `calibrated`."""
        if (said := self._gates.get(layer)) is None:
            model, before = self._model, layer < 0
            # Before the first gate of a step the last gate is the previous token's.
            source = layer % model.layers
            scores = head_scores(
                source,
                self._older_ids if before else self._ids,
                self._older_weights if before else self._weights,
                self._older_ids,
                self._older_weights,
                self._older,
                self._older if before else self._newer,
                model.window[source],
                model.previous[source],
                model.average[source],
                model.bias[source],
            )
            said = calibrated(scores, model.knots[source], model.changes[source], self._anchors)
            self._gates[layer] = said
        return said

    def _begin(self) -> None:
        """Set aside what the rows' sequences did before this step: forecasts may be asked for late."""
        self._older_ids, self._older_weights = self._memory.last_of_all()
        self._older = self._memory.averages_of_all()
        self._ids = np.full_like(self._older_ids, NOT_RECORDED)
        self._weights = np.zeros_like(self._older_weights)
        self._newer = self._older.copy()
        self._anchors = anchor_weights(self._tokens)
        self._gates: dict[int, tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]] = {}
