"""Residents by moving averages of their demand, gate by gate."""

from __future__ import annotations

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.residency.learned import STATIC_FROM_TOKENS


class GateAverage:
    """The expert with the least expected host time goes first, as `MovingAverage` says it, layer by layer.

    Parameters
    ----------
    start
        Probability that a token chooses each expert, as known before, float64 ``[layers, experts]``; each row
        adds up to the experts of a token.
    fixed_ns, per_token_ns
        Host time of an expert, apart from its tokens and for each of them.
    decay
        Weight of the newest step; 0.05 was best over batches of 1, 4 and 8 on validation sequences.
    static_from
        Tokens in a step from which nobody moves: for large batches it costs more than it gains.
    """

    name = "moving-average"

    def __init__(
        self,
        start: FloatArray,
        *,
        fixed_ns: float,
        per_token_ns: float,
        decay: float = 0.05,
        static_from: int = STATIC_FROM_TOKENS,
    ) -> None:
        if not 0 < decay <= 1:
            raise ValueError(f"expected decay in (0, 1], got {decay}")
        self._use = np.array(start, dtype=np.float64)
        self._chosen = self._use.sum(axis=1)
        self._fixed_ns, self._per_token_ns = fixed_ns, per_token_ns
        self._decay, self._static_from = decay, static_from

    def observe(self, layer: int, counts: IntArray, steps: float = 1.0) -> None:
        """See `GateRule.observe`."""
        total = int(counts.sum())
        if total:
            weight = 1.0 - (1.0 - self._decay) ** steps
            self._use[layer] += weight * (counts * (self._chosen[layer] / total) - self._use[layer])

    def scores(self, layer: int, tokens: int) -> FloatArray | None:
        """See `GateRule.scores`."""
        if tokens >= self._static_from:
            return None
        expected = self._use[layer] * tokens
        worth: FloatArray = self._fixed_ns * (1.0 - np.exp(-expected)) + self._per_token_ns * expected
        return worth

    def end_step(self) -> None:
        """See `GateRule.end_step`."""

    def close(self) -> None:
        """See `GateRule.close`."""
