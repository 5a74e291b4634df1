"""A trace's tokens as training rows, with what each row's sequence showed before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from prescope.instances import RoutingTrace
from prescope.predictor.llapor.basis import Basis
from prescope.predictor.llapor.features import past_columns, selection_columns, source_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceRows:
    """Tokens of some sequences, without padding.

    Parameters
    ----------
    hidden
        Gating inputs of each layer, float16 or float32 ``[rows, hidden]``.
    ids
        Chosen experts, int64 ``[rows, layers, top_k]``, -1 not recorded.
    weights
        Routing weights, float32 of the same shape, or ``None``.
    token_ids
        Input tokens, int64 ``[rows]``, -1 unknown, or ``None``.
    lengths
        Rows of each sequence, in order.
    """

    hidden: list[Tensor]
    ids: Tensor
    weights: Tensor | None
    token_ids: Tensor | None
    lengths: tuple[int, ...]


def trace_rows(trace: RoutingTrace, sequences: Sequence[int]) -> TraceRows:
    """The tokens of these sequences of a trace.

    Raises
    ------
    ValueError
        When the trace has no gating inputs, or the sequences no tokens.
    """
    if trace.hidden is None:
        raise ValueError(
            "expected a trace with gating inputs, got none: record with `prescope record --hidden`, or train "
            "the kind 'routing-only', which needs none"
        )
    bounds = trace.seq_offsets
    pieces = [np.arange(bounds[at], bounds[at + 1]) for at in sequences]
    pieces = [piece[~trace.padding[piece]] for piece in pieces]
    rows = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
    if not len(rows):
        raise ValueError("expected sequences with at least one token that is not padding, got none")
    weights, token_ids = trace.topk_weights, trace.token_ids
    return TraceRows(
        hidden=[torch.from_numpy(trace.hidden[rows, layer]) for layer in range(trace.layers)],
        ids=torch.from_numpy(trace.topk_ids[rows].astype(np.int64)),
        weights=None if weights is None else torch.from_numpy(weights[rows].astype(np.float32)),
        token_ids=None if token_ids is None else torch.from_numpy(token_ids[rows].astype(np.int64)),
        lengths=tuple(len(piece) for piece in pieces if len(piece)),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Histories:
    """What each row's sequence showed before it.

    Parameters
    ----------
    last
        History of the token before, zeros for a first one, ``[rows, history]``.
    trend
        Moving average of its first components, ``[rows, trend]``.
    known
        One where there is a token before, ``[rows, 1]``.
    """

    last: Tensor
    trend: Tensor
    known: Tensor


def histories(rows: TraceRows, basis: Basis, *, decay: float) -> Histories:
    """Histories of all rows, as `prescope.predictor.llapor.memory.HistoryMemory` keeps them while running."""
    count = len(rows.ids)
    now = torch.zeros(count, basis.history)
    for layer, hidden in enumerate(rows.hidden):
        for start in range(0, count, 16384):
            now[start : start + 16384] += basis.history_part(layer, hidden[start : start + 16384].float())
    last, trend, known = torch.zeros_like(now), torch.zeros(count, basis.trend), torch.zeros(count, 1)
    lengths = torch.tensor(rows.lengths)
    starts = lengths.cumsum(0) - lengths
    order = lengths.argsort(descending=True)
    running = torch.zeros(len(lengths), basis.trend)
    for place in range(1, max(rows.lengths, default=0)):
        # Sequences that are long enough come first.
        alive = order[: int((lengths > place).sum())]
        at = starts[alive] + place
        last[at], known[at] = now[at - 1], 1.0
        running[alive] = decay * running[alive] + (1.0 - decay) * now[at - 1, : basis.trend]
        trend[at] = running[alive]
    return Histories(last=last, trend=trend, known=known)


class SourceData:
    """Features and targets of one source, made batch by batch.

    Parameters
    ----------
    rows, past, basis
        Tokens, their histories, and the maps they are seen through.
    source
        0 for the start of a step, ``s`` for the gate of layer ``s - 1``.
    experts
        Experts per layer.
    """

    def __init__(self, rows: TraceRows, past: Histories, basis: Basis, *, source: int, experts: int) -> None:
        self._rows, self._past, self._gain = rows, past, basis.trend_scale
        self._source, self._experts = source, experts
        count = len(rows.ids)
        if source:
            blocks = torch.split(rows.hidden[source - 1], 16384)
            self.main = torch.cat([basis.components_of(source - 1, block.float()) for block in blocks])
            self._rest = None
        else:
            tokens = basis.token_components(rows.token_ids, count)
            self.main, self._rest = tokens[:, :-1], tokens[:, -1:]

    def __len__(self) -> int:
        return len(self._rows.ids)

    def features(self, at: Tensor, forget: Tensor | None = None) -> Tensor:
        """Rows of features, as `source_rows`; where ``forget`` is true the history is left out."""
        if self._rest is None:
            layer = self._source - 1
            weights = None if self._rows.weights is None else self._rows.weights[at, layer]
            rest = selection_columns(self._rows.ids[at, layer], weights, self._experts)
        else:
            rest = self._rest[at]
        known = self._past.known[at]
        if forget is not None:
            known = torch.where(forget[:, None], 0.0, known)
        past = past_columns(self._past.last[at], self._past.trend[at], known, gain=self._gain)
        return source_rows(self.main[at], rest, past)

    def target_ids(self, at: Tensor, horizons: int) -> Tensor:
        """Experts of the coming layers, int64 ``[rows, horizons, top_k]``."""
        return self._rows.ids[at, self._source : self._source + horizons]
