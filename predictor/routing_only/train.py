"""Training a routing-only predictor: least squares, then calibration on other sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.checks import require_int
from prescope.formulation.demand import IntArray
from prescope.instances import RoutingTrace, popularity
from prescope.predictor.calibration import (
    ANCHORS,
    EmulatedBatches,
    apply_token_map,
    fit_event_curves,
    fit_token_map,
)
from prescope.predictor.routing_only.design import Design
from prescope.predictor.routing_only.history import History
from prescope.predictor.routing_only.least_squares import SourceSums, scores
from prescope.predictor.routing_only.model import RoutingOnlyModel, shapes
from prescope.predictor.routing_only.settings import RoutingOnlySettings
from prescope.predictor.split import SequenceSplit

FOLDS = 3
"""Parts of the training sequences. Heads fitted without a part judge it: there are many more training than
validation sequences, and it takes many texts to see how tokens of a batch go together."""


def train_routing_only(
    trace: RoutingTrace,
    split: SequenceSplit,
    settings: RoutingOnlySettings | None = None,
    *,
    max_tokens: int = 40_000,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> RoutingOnlyModel:
    """Fit the heads on the training sequences and calibrate them on sequences they were not fitted to.

    There is no randomness: the same trace, split and settings give the same model, up to rounding.

    Parameters
    ----------
    trace
        Recorded routing.
    split
        Sequences by purpose; those for testing are not looked at.
    settings
        What the heads look at.
    max_tokens
        Training stops taking further sequences when it has this many tokens: what bounds its memory.
    progress
        Called with the number of layers done and of all.

    Raises
    ------
    ValueError
        When the split names sequences that do not exist, or a part has no usable token.
    """
    settings = RoutingOnlySettings() if settings is None else settings
    require_int("max_tokens", max_tokens, 1)
    known = {*range(trace.sequences)}
    if unknown := {*split.train, *split.validation, *split.test} - known:
        raise ValueError(f"expected sequences in [0, {trace.sequences - 1}], got {sorted(unknown)[:10]}")
    rows = _rows_of(trace, _first(trace, split.train, max_tokens))
    prior = popularity(trace, rows=rows)
    fitted, held = (
        Design(
            history=History.of(
                trace, _first(trace, sequences, max_tokens), prior=prior, decays=settings.decays
            ),
            settings=settings,
        )
        for sequences in (split.train, split.validation)
    )
    # Heads that go on into the next token need one.
    folds = _folds(fitted.history, _learnable(fitted.history, "training"))
    judges = _learnable(held.history, "validation")
    layers, experts, horizons = trace.layers, trace.meta.experts, settings.horizons_of(trace.layers)
    arrays: dict[str, Any] = {
        name: np.zeros(shape, dtype=np.float32) for name, shape in shapes(layers, experts, settings).items()
    }
    arrays["prior"][:] = prior
    # What calibrates: validation tokens, and training tokens of the heads that did not see their sequence.
    witnesses = [(held, judges)]
    witnesses += [(fitted, fold) for fold in folds] if len(folds) > 1 else []
    sequence = np.concatenate([design.history.sequence[tokens] for design, tokens in witnesses])
    batches = EmulatedBatches.of(sequence, ANCHORS)
    every = round(1 / settings.blank_share) if settings.blank_share else 0
    for source in range(layers):
        sums = [SourceSums(fitted, source, horizons) for _ in folds]
        for part, fold in zip(sums, folds, strict=True):
            part.add(fold, blank=False)
            if every:
                part.add(fold[::every], blank=True)
        heads = SourceSums.solve(sums, settings.penalty)
        for horizon, head in enumerate(heads, start=1):
            _store(arrays, source, horizon, head, settings)
        others = [[*sums[:at], *sums[at + 1 :]] for at in range(len(sums))] if len(sums) > 1 else []
        heads_of = [heads, *(SourceSums.solve(rest, settings.penalty) for rest in others)]
        said = [
            scores(design, source, tokens, fit)
            for (design, tokens), fit in zip(witnesses, heads_of, strict=True)
        ]
        score = np.concatenate(said, axis=1)
        for horizon in range(1, horizons + 1):
            truth = np.concatenate(
                [design.truth(source, horizon, tokens) > 0 for design, tokens in witnesses]
            )
            knots = fit_token_map(score[horizon - 1], truth)
            arrays["knots"][source, horizon - 1] = knots
            probability = apply_token_map(knots, score[horizon - 1])
            arrays["changes"][source, horizon - 1] = fit_event_curves(batches, probability, truth)
        progress(source + 1, layers)
    return RoutingOnlyModel(
        name=trace.meta.model,
        fingerprint=trace.meta.fingerprint,
        layers=layers,
        experts=experts,
        top_k=trace.meta.top_k,
        settings=settings,
        split=split,
        **arrays,
    )


def _store(
    arrays: dict[str, npt.NDArray[np.float32]],
    source: int,
    horizon: int,
    head: npt.NDArray[np.float32],
    settings: RoutingOnlySettings,
) -> None:
    """Put a head's coefficients where the compiled scores look for them."""
    experts = head.shape[1]
    arrays["bias"][source, horizon - 1] = head[0]
    window = arrays["window"][source]
    shared = 1 + int(np.prod(window.shape[:3]))
    columns = slice((horizon - 1) * experts, horizon * experts)
    window[..., columns] = head[1:shared].reshape(window.shape[:3] + (experts,))
    previous = arrays["previous"][source]
    size = 0
    if previous.shape[0]:
        size = previous[0].size // experts
        previous[horizon - 1] = head[shared : shared + size].reshape(previous.shape[1:])
    average = arrays["average"][source]
    average[horizon - 1] = head[shared + size :].reshape(average.shape[1:])


def _first(trace: RoutingTrace, sequences: tuple[int, ...], max_tokens: int) -> tuple[int, ...]:
    """As many of the sequences as have at most ``max_tokens`` tokens, at least one."""
    ends = np.cumsum(np.diff(trace.seq_offsets)[list(sequences)])
    return sequences[: max(1, int((ends <= max_tokens).sum()))]


def _rows_of(trace: RoutingTrace, sequences: tuple[int, ...]) -> IntArray:
    runs = [np.arange(trace.seq_offsets[one], trace.seq_offsets[one + 1]) for one in sequences]
    return np.concatenate([np.zeros(0, dtype=np.int64), *runs]).astype(np.int64)


def _folds(history: History, tokens: IntArray) -> list[IntArray]:
    """Training tokens in up to `FOLDS` parts of whole sequences."""
    names = np.unique(history.sequence[tokens])
    part_of = np.searchsorted(names, history.sequence[tokens]) % FOLDS
    parts = [tokens[part_of == part] for part in range(min(FOLDS, len(names)))]
    return parts


def _learnable(history: History, what: str) -> IntArray:
    tokens: IntArray = np.flatnonzero(history.usable & (history.after >= 0) & history.usable[history.after])
    if not tokens.size:
        raise ValueError(f"expected {what} sequences with recorded tokens that have a successor, got none")
    return tokens
