"""How many tokens each expert of each layer gets: known, or predicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prescope.formulation.checks import require_int

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def _frozen(array: npt.NDArray[np.generic]) -> None:
    array.flags.writeable = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """Known token counts of one batch.

    Parameters
    ----------
    counts
        Tokens per layer and expert, shape ``[layers, experts]``, int64, non-negative.
    batch_tokens
        Tokens of the batch, which the dense part of every layer processes.
    """

    counts: IntArray
    batch_tokens: int

    def __post_init__(self) -> None:
        counts = np.array(self.counts)
        if counts.ndim != 2 or 0 in counts.shape:
            raise ValueError(f"expected counts of shape [layers, experts], both >= 1, got {counts.shape}")
        if counts.dtype.kind not in "iu":
            raise ValueError(f"expected integer counts, got dtype {counts.dtype}")
        counts = counts.astype(np.int64)
        require_int("batch_tokens", self.batch_tokens, 0)
        if counts.min() < 0 or counts.max() > self.batch_tokens:
            raise ValueError(
                f"expected counts in [0, batch_tokens={self.batch_tokens}], "
                f"got values in [{counts.min()}, {counts.max()}]"
            )
        _frozen(counts)
        object.__setattr__(self, "counts", counts)

    @property
    def layers(self) -> int:
        """Number of MoE layers."""
        return int(self.counts.shape[0])

    @property
    def experts(self) -> int:
        """Number of experts per layer."""
        return int(self.counts.shape[1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Demand):
            return NotImplemented
        return self.batch_tokens == other.batch_tokens and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash((self.batch_tokens, self.counts.tobytes()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PredictedDemand:
    """What a predictor said of each layer, by how many layers ahead it said so.

    Parameters
    ----------
    probabilities
        Probability that the expert gets at least one token of the batch, shape
        ``[horizons, layers, experts]``; entry ``[h - 1, l]`` was predicted at the gate of layer
        ``l - h``.
    expected_tokens
        Expected tokens, same shape, non-negative.
    source
        The predictor that made it.
    """

    probabilities: FloatArray
    expected_tokens: FloatArray
    source: str = "unnamed"

    def __post_init__(self) -> None:
        for name in ("probabilities", "expected_tokens"):
            # + 0.0 turns -0.0 to 0.0: what is equal must hash equal.
            array = np.array(getattr(self, name), dtype=np.float64) + 0.0
            if array.ndim != 3 or 0 in array.shape:
                raise ValueError(f"expected {name} of shape [horizons, layers, experts], got {array.shape}")
            if not np.isfinite(array).all() or array.min() < 0:
                raise ValueError(f"expected finite {name} >= 0, got NaN, infinity or a negative value")
            _frozen(array)
            object.__setattr__(self, name, array)
        if self.probabilities.max() > 1:
            raise ValueError(f"expected probabilities in [0, 1], got {self.probabilities.max()}")
        if self.probabilities.shape != self.expected_tokens.shape:
            raise ValueError(
                f"expected equal shapes, got {self.probabilities.shape} and {self.expected_tokens.shape}"
            )

    @property
    def horizons(self) -> int:
        """How many layers ahead the predictions reach."""
        return int(self.probabilities.shape[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PredictedDemand):
            return NotImplemented
        return (
            self.source == other.source
            and np.array_equal(self.probabilities, other.probabilities)
            and np.array_equal(self.expected_tokens, other.expected_tokens)
        )

    def __hash__(self) -> int:
        return hash((self.source, self.probabilities.tobytes(), self.expected_tokens.tobytes()))
