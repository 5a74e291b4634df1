"""Inputs of the heads as matrices, for the least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import IntArray
from prescope.predictor.routing_only.history import History
from prescope.predictor.routing_only.settings import RoutingOnlySettings

Matrix = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Design:
    """Makes the inputs of tokens at a source layer.

    Parameters
    ----------
    history
        The tokens.
    settings
        What the heads look at.
    """

    history: History
    settings: RoutingOnlySettings

    @property
    def layers(self) -> int:
        """MoE layers."""
        return int(self.history.prior.shape[0])

    @property
    def experts(self) -> int:
        """Experts per layer."""
        return int(self.history.prior.shape[1])

    def shared(self, source: int, tokens: IntArray, *, blank: bool) -> Matrix:
        """Constant and window, float32 ``[tokens, 1 + gates * channels * experts]``.

        Parameters
        ----------
        source
            Layer of the last gate.
        tokens
            Indices into the history.
        blank
            Whether the past of the sequences is hidden.
        """
        parts = [np.ones((len(tokens), 1), dtype=np.float32)]
        for back in range(self.settings.window_of(self.layers)):
            layer = (source - back) % self.layers
            of = tokens if layer <= source else self._before(tokens, blank)
            parts.append(self._choices(of, layer))
        return np.concatenate(parts, axis=1)

    def own(self, source: int, horizon: int, tokens: IntArray, *, blank: bool) -> Matrix:
        """Inputs of one horizon alone: the target's last choice and averages, ``[tokens, anything]``."""
        target = (source + horizon) % self.layers
        wraps = source + horizon >= self.layers
        parts = []
        if self.settings.previous and self.settings.window_of(self.layers) < self.layers:
            parts.append(self._choices(tokens if wraps else self._before(tokens, blank), target))
        if self.settings.decays:
            # In the next step the averages hold this token too.
            of = self.history.after[tokens] if wraps else tokens
            averages = self.history.averages[of, target].astype(np.float32)
            if blank:
                averages = np.broadcast_to(self.history.prior[target].astype(np.float32), averages.shape)
            parts.append(averages.reshape(len(tokens), -1))
        empty = np.zeros((len(tokens), 0), dtype=np.float32)
        return np.concatenate(parts, axis=1) if parts else empty

    def truth(self, source: int, horizon: int, tokens: IntArray) -> Matrix:
        """What the target layer chose, ``[tokens, experts]``."""
        target, wraps = (source + horizon) % self.layers, source + horizon >= self.layers
        of = self.history.after[tokens] if wraps else tokens
        return self._hot(self.history.ids[of, target])

    def _before(self, tokens: IntArray, blank: bool) -> IntArray:
        return np.full_like(tokens, -1) if blank else self.history.before[tokens]

    def _choices(self, tokens: IntArray, layer: int) -> Matrix:
        """Choices and their weights, ``[tokens, channels * experts]``; zero for token -1."""
        known = (tokens >= 0)[:, None]
        ids = np.where(known, self.history.ids[tokens, layer], -1)
        hot = self._hot(ids)
        if not self.settings.weights:
            return hot
        return np.concatenate([hot, self._hot(ids, self.history.weights[tokens, layer])], axis=1)

    def _hot(self, ids: IntArray, values: Matrix | float = 1.0) -> Matrix:
        rows = np.zeros((len(ids), self.experts + 1), dtype=np.float32)
        np.put_along_axis(rows, np.where(ids < 0, self.experts, ids), values, axis=1)
        return rows[:, : self.experts]
