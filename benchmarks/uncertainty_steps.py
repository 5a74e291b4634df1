"""Decode steps of recorded gpt-oss-20b routing with the forecasts of a predictor, for ``uncertainty.py``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.instances import RoutingTrace, TraceMeta
from prescope.predictor.routing_only import (
    RoutingOnly,
    RoutingOnlyModel,
    RoutingOnlySettings,
    load_routing_only,
    save_routing_only,
    train_routing_only,
)
from prescope.predictor.split import SequenceSplit

HORIZONS = 12
"""Layers ahead that the predictor speaks of."""

_WARM_UP = 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Steps:
    """Steps of one batch size in a row, ``L`` layers in all, and what was said of them.

    Parameters
    ----------
    counts
        Tokens, int64 ``[L, E]``.
    probabilities, expected_tokens
        As of `prescope.formulation.PredictedDemand`, ``[HORIZONS, L, E]``; what is said at a step's last
        gates of the next step's first layers is in them.
    before
        Tokens of the steps before the first, which the predictor has seen, int64 ``[steps * layers, E]``;
        ``None`` where there are several windows.
    """

    counts: IntArray
    probabilities: FloatArray
    expected_tokens: FloatArray
    before: IntArray | None = None


def read_shared_trace(path: Path) -> RoutingTrace:
    """The trace as an object; it is read, never copied into the project."""
    with np.load(path, allow_pickle=False) as arrays:
        return RoutingTrace(
            topk_ids=arrays["topk_ids"].astype(np.int16),
            topk_weights=arrays["topk_probs"],
            seq_offsets=arrays["seq_offsets"],
            phase=arrays["phase"],
            meta=TraceMeta(
                model="gpt-oss-20b",
                experts=32,
                top_k=4,
                fingerprint="",
                tokenizer="",
                source=path.name,
                notes="",
            ),
        )


def split_of(trace: RoutingTrace) -> SequenceSplit:
    """48 sequences to fit on, 12 to choose parameters on, 28 to report."""
    order = np.random.default_rng(0).permutation(trace.sequences).tolist()
    return SequenceSplit(train=tuple(order[:48]), validation=tuple(order[48:60]), test=tuple(order[60:]))


def fresh_split_of(trace: RoutingTrace) -> SequenceSplit:
    """The same sequences to choose on; those reported on have served no other table.

    They are the first 28 of `split_of`'s training sequences; its test sequences are trained on.
    """
    old = split_of(trace)
    return SequenceSplit(train=old.test + old.train[28:], validation=old.validation, test=old.train[:28])


def predictor_of(trace: RoutingTrace, folder: Path, split: SequenceSplit | None = None) -> RoutingOnlyModel:
    """The trained routing-only predictor of a folder, trained into it where there is none.

    Raises
    ------
    ValueError
        When the one in the folder was trained on other sequences.
    """
    split = split or split_of(trace)
    if (folder / "predictor.json").exists():
        model = load_routing_only(folder)
        if model.split != split:
            raise ValueError(f"expected a predictor of the same split in {folder}, got another one's")
        return model
    settings = RoutingOnlySettings(horizons=HORIZONS)
    model = train_routing_only(
        trace, split, settings, progress=lambda done, all_: print(f"training {done}/{all_}")
    )
    save_routing_only(folder, model)
    return model


def draw_steps(
    trace: RoutingTrace,
    model: RoutingOnlyModel,
    sequences: tuple[int, ...],
    *,
    batch: int,
    seed: int,
    windows: int,
    window: int,
) -> Steps:
    """Some windows of steps; each row of a batch is a drawn sequence from a drawn place on."""
    random = np.random.default_rng([seed, batch])
    parts = []
    for _ in range(windows):
        rows = np.empty((window + _WARM_UP, batch), dtype=np.int64)
        for slot in range(batch):
            sequence = int(random.choice(sequences))
            first, end = trace.seq_offsets[sequence], trace.seq_offsets[sequence + 1]
            start = int(random.integers(first, end - rows.shape[0] + 1))
            rows[:, slot] = np.arange(start, start + rows.shape[0])
        parts.append(_drive(trace, model, rows))
    return Steps(
        counts=np.concatenate([part.counts for part in parts]),
        probabilities=np.concatenate([part.probabilities for part in parts], axis=1),
        expected_tokens=np.concatenate([part.expected_tokens for part in parts], axis=1),
        before=parts[0].before if len(parts) == 1 else None,
    )


def _drive(trace: RoutingTrace, model: RoutingOnlyModel, rows: IntArray) -> Steps:
    """Show the predictor all rows and note what it says of those behind the warm-up."""
    import torch

    predictor = RoutingOnly(model)
    layers, experts = trace.layers, trace.meta.experts
    total = (rows.shape[0] - _WARM_UP) * layers
    horizons = min(HORIZONS, model.horizons)
    counts = np.zeros((total, experts), dtype=np.int64)
    before = np.zeros((_WARM_UP * layers, experts), dtype=np.int64)
    chance: npt.NDArray[np.float64] = np.zeros((horizons, total, experts))
    tokens = np.zeros_like(chance)
    weights = trace.topk_weights
    for step, row in enumerate(rows):
        predictor.begin_step(rows.shape[1], sequences=np.arange(rows.shape[1]))
        ids = trace.topk_ids[row].astype(np.int64)
        for layer in range(-1, layers):
            now = (step - _WARM_UP) * layers + layer
            if layer >= 0:
                scale = None if weights is None else torch.from_numpy(weights[row, layer].astype(np.float32))
                predictor.observe(layer, None, torch.from_numpy(ids[:, layer]), scale)
                # Negative ones count from the end of those before.
                np.add.at((counts if now >= 0 else before)[now], ids[:, layer].ravel(), 1)
            elif step > _WARM_UP:
                # The last gate of the step before has said it.
                continue
            if now < -1:
                continue
            for horizon in range(1, min(horizons, total - 1 - now) + 1):
                said = _said(predictor, layer, horizon, layers)
                chance[horizon - 1, now + horizon] = said.probability
                tokens[horizon - 1, now + horizon] = said.expected_tokens
    return Steps(counts=counts, probabilities=chance, expected_tokens=tokens, before=before)


def _said(predictor: RoutingOnly, layer: int, horizon: int, layers: int) -> Forecast:
    if layer + horizon < layers:
        return predictor.predict(layer, horizon)
    return predictor.predict_next(layer, horizon)
