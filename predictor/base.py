"""What every predictor offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prescope.formulation.demand import IntArray
from prescope.formulation.forecast import Forecast

if TYPE_CHECKING:
    from torch import Tensor


class Predictor(Protocol):
    """Predicts the demand of coming layers from what the gates of a running batch have shown.

    The caller announces a step with `begin_step`, reports every gate in layer order with `observe`, and
    may ask for forecasts after any of them. Padding and finished rows never reach a predictor.
    """

    @property
    def name(self) -> str:
        """Name in the registry."""
        ...

    def known_counts(self) -> IntArray | None:
        """True counts of the running step, int64 ``[layers, experts]``, where they are known beforehand."""
        ...

    def begin_step(
        self, tokens: int, *, sequences: IntArray | None = None, token_ids: IntArray | None = None
    ) -> None:
        """Announce a forward pass.

        Parameters
        ----------
        tokens
            Number of real tokens, the rows of every gate of the pass.
        sequences
            Which sequence each row continues, int64 ``[tokens]``; rows of one sequence stand in the order
            of the text, and an id is never used again for another sequence. ``None`` where unknown.
        token_ids
            The input token of each row, int64 ``[tokens]``, -1 where unknown; ``None`` where none is known.
        """
        ...

    def observe(self, layer: int, hidden: Tensor | None, indices: Tensor, weights: Tensor | None) -> None:
        """Report a gate.

        Parameters
        ----------
        layer
            MoE layer of the gate.
        hidden
            The gating input, ``[tokens, hidden_size]``, or ``None`` on traces without hidden states.
        indices
            Chosen experts, int64 ``[tokens, top_k]``.
        weights
            Routing weights, ``[tokens, top_k]``, or ``None``.
        """
        ...

    def predict(self, layer: int, horizon: int) -> Forecast:
        """Forecast the demand of ``layer + horizon`` after the gate of ``layer``.

        Parameters
        ----------
        layer
            The last observed gate; -1 before the first one of the step.
        horizon
            How many layers ahead, at least 1.

        Raises
        ------
        ValueError
            When the layer forecast does not exist.
        """
        ...
