"""Residency rules that know only the past, and the one that knows the future."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray


class Static:
    """Nobody moves."""

    name = "static"

    def observe(self, counts: IntArray) -> None:
        """See `ResidencyRule.observe`."""

    def scores(self) -> FloatArray | None:
        """See `ResidencyRule.scores`."""
        return None


class LeastRecentlyUsed:
    """The expert whose last use is longest ago goes first; in a step, deeper layers are more recent."""

    name = "lru"

    def __init__(self, layers: int, experts: int) -> None:
        self._last = np.full((layers, experts), -1.0)
        self._step = 0

    def observe(self, counts: IntArray) -> None:
        """See `ResidencyRule.observe`."""
        layers = counts.shape[0]
        now = self._step + np.arange(layers)[:, None] / layers
        self._last = np.where(counts > 0, now, self._last)
        self._step += 1

    def scores(self) -> FloatArray | None:
        """See `ResidencyRule.scores`."""
        return self._last


class LeastFrequentlyUsed:
    """The expert with the fewest uses so far goes first."""

    name = "lfu"

    def __init__(self, layers: int, experts: int) -> None:
        self._uses = np.zeros((layers, experts))

    def observe(self, counts: IntArray) -> None:
        """See `ResidencyRule.observe`."""
        self._uses += counts > 0

    def scores(self) -> FloatArray | None:
        """See `ResidencyRule.scores`."""
        return self._uses


class MovingAverage:
    """The expert with the least expected host time goes first, by moving averages of its demand.

    Parameters
    ----------
    start
        Share of the tokens that each expert got before, float64 ``[layers, experts]``.
    fixed_ns, per_token_ns
        Host time of an expert, apart from its tokens and for each of them.
    decay
        Weight of the newest step.
    """

    name = "moving-average"

    def __init__(
        self, start: FloatArray, *, fixed_ns: float, per_token_ns: float, decay: float = 0.05
    ) -> None:
        if not 0 < decay <= 1:
            raise ValueError(f"expected decay in (0, 1], got {decay}")
        self._share = np.array(start, dtype=np.float64)
        self._fixed_ns, self._per_token_ns, self._decay = fixed_ns, per_token_ns, decay
        self._tokens = 1

    def observe(self, counts: IntArray) -> None:
        """See `ResidencyRule.observe`."""
        tokens = int(counts.max(initial=0))
        if not tokens:
            return
        self._tokens = max(1, int(counts.sum(axis=1).max()))
        share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        self._share += self._decay * (share - self._share)

    def scores(self) -> FloatArray | None:
        """See `ResidencyRule.scores`."""
        expected = self._share * self._tokens
        needed = 1.0 - np.exp(-expected)
        worth: FloatArray = self._fixed_ns * needed + self._per_token_ns * expected
        return worth


class Belady:
    """The expert whose next use is farthest goes first: the set optimum of hits, not of time.

    Parameters
    ----------
    counts
        True tokens of every step, each int64 ``[layers, experts]``.
    """

    name = "belady"

    def __init__(self, counts: Sequence[IntArray]) -> None:
        steps = len(counts)
        following = np.full((steps + 1, *counts[0].shape), float(steps + 1))
        for step in range(steps - 1, -1, -1):
            following[step] = np.where(counts[step] > 0, float(step), following[step + 1])
        self._following = following
        self._step = 0

    def observe(self, counts: IntArray) -> None:
        """See `ResidencyRule.observe`."""
        self._step += 1

    def scores(self) -> FloatArray | None:
        """See `ResidencyRule.scores`."""
        return -self.next_use()

    def next_use(self) -> FloatArray:
        """Step of each expert's next use, beyond the last one where there is none; ``[layers, experts]``."""
        following: FloatArray = self._following[min(self._step, self._following.shape[0] - 1)]
        return following
