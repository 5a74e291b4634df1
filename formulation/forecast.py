"""What a predictor says of one coming layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.demand import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecast:
    """Expected demand of one layer for the running batch.

    Parameters
    ----------
    expected_tokens
        Expected tokens of each expert, float64 ``[experts]``, non-negative.
    probability
        Probability that the expert gets at least one token, float64 ``[experts]``, in [0, 1].
    """

    expected_tokens: FloatArray
    probability: FloatArray

    def __post_init__(self) -> None:
        expected = np.array(self.expected_tokens, dtype=np.float64)
        probability = np.array(self.probability, dtype=np.float64)
        if expected.ndim != 1 or expected.shape != probability.shape:
            raise ValueError(
                f"expected two arrays of shape [experts], got {expected.shape} and {probability.shape}"
            )
        # One comparison refuses NaN too: it is never >= 0.
        if not ((expected >= 0) & np.isfinite(expected) & (probability >= 0) & (probability <= 1)).all():
            raise ValueError(
                "expected finite expected_tokens >= 0 and probability in [0, 1], "
                f"got {expected.min()}..{expected.max()} and {probability.min()}..{probability.max()}"
            )
        expected.flags.writeable = False
        probability.flags.writeable = False
        object.__setattr__(self, "expected_tokens", expected)
        object.__setattr__(self, "probability", probability)
