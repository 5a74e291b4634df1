"""Sums over a trace from which the scores of one horizon of one layer follow."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.predictor.evaluation.recall import Chosen, Probabilities, best_experts
from prescope.predictor.evaluation.reliability import Reliability
from prescope.predictor.evaluation.volume import count_error, volume_hits


@dataclass(slots=True, kw_only=True)
class TokenTally:
    """Predictions of single tokens, in memory that does not grow.

    Parameters
    ----------
    top_k
        Experts per token.
    width
        Experts that the wider recall may name.
    reference
        Popularity of the experts on the training sequences, ``[experts]``.
    """

    top_k: int
    width: int
    reference: FloatArray
    tokens: int = 0
    hits: float = 0.0
    wide_hits: float = 0.0
    error: float = 0.0
    reference_error: float = 0.0
    reliability: Reliability = field(default_factory=Reliability)

    def add(self, probability: Probabilities, chosen: Chosen) -> None:
        """Count tokens that chose something: prediction and choice, ``[tokens, experts]``."""
        number = chosen.sum(axis=1)
        self.tokens += len(number)
        self.hits += float(((chosen & best_experts(probability, self.top_k)).sum(axis=1) / number).sum())
        self.wide_hits += float(((chosen & best_experts(probability, self.width)).sum(axis=1) / number).sum())
        self.error += float(np.square(probability - chosen).sum())
        self.reference_error += float(np.square(self.reference - chosen).sum())
        self.reliability.add(probability, chosen)

    def merge(self, other: TokenTally) -> None:
        """Count what another one counted."""
        self.tokens += other.tokens
        self.hits += other.hits
        self.wide_hits += other.wide_hits
        self.error += other.error
        self.reference_error += other.reference_error
        self.reliability.merge(other.reliability)

    @property
    def recall(self) -> float | None:
        """Top-k recall."""
        return self.hits / self.tokens if self.tokens else None

    @property
    def wide_recall(self) -> float | None:
        """Recall within ``width`` experts."""
        return self.wide_hits / self.tokens if self.tokens else None

    @property
    def brier_skill(self) -> float | None:
        """Brier skill over popularity."""
        return 1.0 - self.error / self.reference_error if self.reference_error else None

    @property
    def calibration_error(self) -> float | None:
        """Adaptive calibration error of probabilities of at least .05."""
        return self.reliability.error(floor=0.05)


@dataclass(slots=True, kw_only=True)
class BatchTally:
    """Predictions of whole batches."""

    batches: int = 0
    soft_error: float = 0.0
    hard_error: float = 0.0
    volume_hits: float = 0.0
    reliability: Reliability = field(default_factory=Reliability)

    def add(self, expected: FloatArray, needed: FloatArray, hard: IntArray, counts: IntArray) -> None:
        """Count batches, ``[batches, experts]`` each, all with tokens.

        Parameters
        ----------
        expected, needed
            Expected tokens, and probability of at least one.
        hard
            Tokens when each goes to its likeliest experts.
        counts
            True tokens.
        """
        number = len(counts)
        self.batches += number
        self.soft_error += number * (count_error(expected, counts) or 0.0)
        self.hard_error += number * (count_error(hard.astype(np.float64), counts) or 0.0)
        self.volume_hits += number * (volume_hits(expected, counts) or 0.0)
        self.reliability.add(needed, counts > 0)

    def merge(self, other: BatchTally) -> None:
        """Count what another one counted."""
        self.batches += other.batches
        self.soft_error += other.soft_error
        self.hard_error += other.hard_error
        self.volume_hits += other.volume_hits
        self.reliability.merge(other.reliability)

    @property
    def soft_count_error(self) -> float | None:
        """Normalised error of the expected counts, per batch."""
        return self.soft_error / self.batches if self.batches else None

    @property
    def hard_count_error(self) -> float | None:
        """Normalised error of the counts when every token goes to its likeliest experts."""
        return self.hard_error / self.batches if self.batches else None

    @property
    def four_in_six(self) -> float | None:
        """The PreScope paper's accuracy; see `prescope.predictor.evaluation.volume.volume_hits`."""
        return self.volume_hits / self.batches if self.batches else None

    @property
    def event_error(self) -> float | None:
        """Adaptive calibration error of the batch event."""
        return self.reliability.error()
