"""Residents by what a learned model expects of the next steps, refitted while running."""

from __future__ import annotations

import numpy as np

from prescope.formulation.checks import require_int
from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.residency.base import ResidencyRule
from prescope.solver.residency.outlook_model import Inputs, OutlookSums, use_of
from prescope.solver.residency.refit import Refit
from prescope.solver.residency.rules import MovingAverage, Static


class Learned:
    """The expert with the least expected host time in the near future goes first.

    The expected use of an expert by a token is linear in what all experts of its layer were used lately
    (`prescope.solver.residency.outlook_model`). With ``n`` tokens in a step and probability ``p`` for each,
    an expert is worth ``fixed_ns * (1 - (1 - p)**n) + per_token_ns * n * p``.

    Parameters
    ----------
    start
        Probability that a token chooses each expert, as known before, float64 ``[layers, experts]``.
    sums
        What the model was fitted from, for example `fit_outlook`.
    fixed_ns, per_token_ns
        Host time of an expert, apart from its tokens and for each of them.
    refit
        Fits the model again while it is used; ``None`` leaves it as it is.
    """

    name = "learned"

    def __init__(
        self,
        start: FloatArray,
        sums: OutlookSums,
        *,
        fixed_ns: float,
        per_token_ns: float,
        refit: Refit | None = None,
    ) -> None:
        self._start, self._fixed_ns, self._per_token_ns = start, fixed_ns, per_token_ns
        self._inputs = Inputs(start, sums.settings.neighbours)
        self._model = sums.solve()
        self._refit = refit
        self._tokens = 1.0

    def observe(self, counts: IntArray) -> None:
        """See `ResidencyRule.observe`."""
        use = use_of(counts, self._start)
        if self._refit is not None:
            self._refit.observe(self._inputs.rows(), use)
            self._model = self._refit.latest(self._model)
        self._inputs.observe(use)
        chosen = max(1e-9, float(self._start.sum(axis=1).max()))
        self._tokens = max(1.0, float(counts.sum(axis=1).max()) / chosen)

    def expected_use(self) -> FloatArray:
        """Probability that a token of the coming steps chooses each expert, ``[layers, experts]``."""
        use: FloatArray = np.clip((self._inputs.rows()[:, None, :] @ self._model)[:, 0], 0.0, 1.0)
        return use

    def scores(self) -> FloatArray | None:
        """See `ResidencyRule.scores`."""
        use = self.expected_use()
        needed = 1.0 - (1.0 - use) ** self._tokens
        worth: FloatArray = self._fixed_ns * needed + self._per_token_ns * self._tokens * use
        return worth


STATIC_FROM_TOKENS = 16
"""Batch from which moving residents by popularity costs more than it gains."""


def untrained_rule(
    start: FloatArray, *, tokens: int, fixed_ns: float, per_token_ns: float, decay: float = 0.05
) -> ResidencyRule:
    """What to use without a model: a moving average for small batches, nothing for large ones.

    Parameters
    ----------
    start
        Share of the tokens that each expert got before, float64 ``[layers, experts]``.
    tokens
        Tokens of a step.
    fixed_ns, per_token_ns, decay
        As of `MovingAverage`.
    """
    require_int("tokens", tokens, 0)
    if tokens >= STATIC_FROM_TOKENS:
        return Static()
    return MovingAverage(start, fixed_ns=fixed_ns, per_token_ns=per_token_ns, decay=decay)
