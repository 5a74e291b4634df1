"""Each sequence's own moving average of a layer's choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prescope.formulation.checks import require_finite
from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.predictor.rows import checked_prior, forecast_from_rows, ids_of
from prescope.predictor.sequence_memory import SequenceMemory
from prescope.predictor.shares import check_target

if TYPE_CHECKING:
    from torch import Tensor


class MovingAverage:
    """A row chooses as its sequence did lately; a new sequence starts from the prior.

    Parameters
    ----------
    layers, experts, top_k
        Shape of the model.
    prior
        Share of each expert, float ``[layers, experts]``; uniform when ``None``.
    decay
        What is left of an average after one token.
    """

    name = "moving-average"

    def __init__(
        self, *, layers: int, experts: int, top_k: int, prior: FloatArray | None = None, decay: float = 0.9
    ) -> None:
        require_finite("decay", decay, 0.0)
        if decay >= 1:
            raise ValueError(f"expected decay below 1, got {decay}")
        self._layers = layers
        start = checked_prior(prior, layers, experts, top_k)
        self._memory = SequenceMemory(prior=start, top_k=top_k, decays=(decay,))

    def known_counts(self) -> IntArray | None:
        """Nothing is known beforehand; see `Predictor.known_counts`."""
        return None

    def begin_step(
        self, tokens: int, *, sequences: IntArray | None = None, token_ids: IntArray | None = None
    ) -> None:
        """Announce a step; see `Predictor.begin_step`."""
        self._memory.begin_step(tokens, sequences)

    def observe(self, layer: int, hidden: Tensor | None, indices: Tensor, weights: Tensor | None) -> None:
        """Bring the averages of a layer up to date; see `Predictor.observe`."""
        self._memory.observe(layer, ids_of(indices), None)

    def predict_tokens(self, layer: int, horizon: int) -> FloatArray:
        """Probability that each row chooses each expert, float64 ``[tokens, experts]``."""
        target = check_target(layer, horizon, self._layers)
        rows: FloatArray = self._memory.averages(target)[0].astype("float64")
        return rows

    def predict(self, layer: int, horizon: int) -> Forecast:
        """Forecast of the batch; see `Predictor.predict`."""
        return forecast_from_rows(self.predict_tokens(layer, horizon))
