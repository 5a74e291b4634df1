"""Which sequences of a trace a predictor may be judged on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.instances import Phase, RoutingTrace, popularity
from prescope.predictor.split import SequenceSplit, split_sequences


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Sequences by purpose, as an evaluation uses them.

    Parameters
    ----------
    split
        ``test`` is judged on; baselines learn from ``train``.
    warning
        Why the figures may flatter, ``None`` where they do not.
    """

    split: SequenceSplit
    warning: str | None = None


def judged_sequences(trace: RoutingTrace, trained: SequenceSplit | None, *, seed: int) -> Judged:
    """Sequences to judge on.

    Parameters
    ----------
    trace
        Recorded routing.
    trained
        Division that the predictor was trained with; ``None`` for one that was not trained.
    seed
        Of a new division.

    Raises
    ------
    ValueError
        When nothing is left to judge on.
    """
    if trained is not None:
        known = len(trained.train) + len(trained.validation) + len(trained.test)
        if known == trace.sequences:
            if not trained.test:
                raise ValueError(
                    "expected sequences that the predictor was not trained on, got a predictor trained on "
                    "all of this trace: evaluate it on another recording, or train it with --test above 0"
                )
            return Judged(split=trained)
        warning = (
            f"the predictor was trained on a trace of {known} sequences and this one has {trace.sequences}: "
            "if they overlap, its figures flatter"
        )
    else:
        warning = None
    if trace.sequences < 3:
        return Judged(
            split=SequenceSplit(train=(), validation=(), test=tuple(range(trace.sequences))), warning=warning
        )
    return Judged(split=split_sequences(trace, seed=seed), warning=warning)


def reference_popularity(trace: RoutingTrace, split: SequenceSplit) -> FloatArray:
    """Popularity that forecasts are measured against: of the training sequences.

    Without any it is that of the prompts judged on, and uniform without prompts.
    """
    rows = rows_of(trace, split.train)
    if not rows.size:
        rows = rows_of(trace, split.test)
        rows = rows[trace.phase[rows] == Phase.PREFILL]
    if not rows.size:
        return np.full((trace.layers, trace.meta.experts), trace.meta.top_k / trace.meta.experts)
    return popularity(trace, rows=rows)


def rows_of(trace: RoutingTrace, sequences: tuple[int, ...]) -> IntArray:
    """Tokens of sequences, padding left out, int64."""
    runs = [np.arange(trace.seq_offsets[one], trace.seq_offsets[one + 1]) for one in sequences]
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *runs]).astype(np.int64)
    found: IntArray = rows[~trace.padding[rows]]
    return found
