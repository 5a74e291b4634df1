"""Residency by how likely each expert is used soon, from moving averages of several spans."""

from __future__ import annotations

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray

# Weights of one step in the averages, and what each adds to the probability of use. The latter were fitted
# to the use in the next steps of decode of gpt-oss-20b at batch 1, on training sequences, each step of the
# future counting half of the one before it.
_DECAYS = np.array([1.0, 0.5, 0.2, 0.05, 0.02])
_SHARES = np.array([0.03, 0.12, -0.03, 0.38, 0.45])
_START_SHARE = 0.05


class MixedAverageResidency:
    """The expert expected to be idle longest goes first, as with ``moving-average``.

    What an expert was used for lately says something for a few steps, what it is used for in the long run for
    longer; a mean of averages of several spans forgets neither.

    Parameters
    ----------
    popularity
        Starting probabilities of use in a step, float ``[layers, experts]``.
    """

    name = "mixed-average"

    def __init__(self, popularity: FloatArray) -> None:
        start = np.clip(np.asarray(popularity, dtype=np.float64), 1e-3, 1.0)
        self._averages = np.repeat(start[:, None], _DECAYS.shape[0], axis=1)
        self._start = _START_SHARE * start
        self._idle = np.stack([self._idle_steps(layer) for layer in range(start.shape[0])])

    def _idle_steps(self, layer: int) -> FloatArray:
        use = np.clip(_SHARES @ self._averages[layer] + self._start[layer], 1e-3, 1.0)
        idle: FloatArray = (1.0 - use) / use
        return idle

    def observe(self, layer: int, counts: IntArray) -> None:
        """Move the layer's averages; see `Residency.observe`."""
        averages = self._averages[layer]
        averages += _DECAYS[:, None] * ((counts > 0) - averages)
        self._idle[layer] = self._idle_steps(layer)

    def scores(self, layer: int) -> FloatArray:
        """Expected distance to the next use in layers, negated; see `Residency.scores`."""
        layers = self._idle.shape[0]
        ahead = (np.arange(layers) - layer - 1) % layers + 1
        distance: FloatArray = ahead[:, None] + layers * self._idle
        return -distance

    def quota(self, rows: int) -> int | None:
        """One pool; see `Residency.quota`."""
        return None
