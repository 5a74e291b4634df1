"""Shows a predictor what the gates of a recorded batch showed, gate by gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.instances import BatchStep, Phase, RoutingTrace
from prescope.predictor.base import Predictor

if TYPE_CHECKING:
    from torch import Tensor


def replay(
    predictor: Predictor, trace: RoutingTrace, steps: Iterable[BatchStep]
) -> Iterator[tuple[BatchStep, int]]:
    """Run recorded steps past a predictor.

    After every pair that is yielded the caller may ask ``predictor.predict(layer, horizon)``; the next gate
    is reported when the next pair is taken.

    Parameters
    ----------
    predictor
        Is told of every step and every gate, with hidden states, weights and token ids where recorded.
    trace
        Recorded routing without missing entries in the steps replayed.
    steps
        As `prescope.instances.decode_batches` or `prescope.instances.prefill` cut them.

    Yields
    ------
    step, layer
        The running step and the gate reported last, -1 before the first one.
    """
    ids = _SequenceIds(trace)
    for step in steps:
        rows = step.rows
        token_ids = getattr(trace, "token_ids", None)
        predictor.begin_step(
            len(rows),
            sequences=ids.of(rows),
            token_ids=None if token_ids is None else token_ids[rows].astype(np.int64),
        )
        yield step, -1
        for layer in range(trace.layers):
            predictor.observe(layer, *gate(trace, rows, layer))
            yield step, layer


def gate(trace: RoutingTrace, rows: IntArray, layer: int) -> tuple[Tensor | None, Tensor, Tensor | None]:
    """What a recorded gate saw and chose: gating input, ids and weights, as `Predictor.observe` takes them.

    Raises
    ------
    ValueError
        When the routing of a row was not recorded.
    """
    import torch

    indices = torch.from_numpy(trace.topk_ids[rows, layer].astype(np.int64))
    if (indices < 0).any():
        raise ValueError(f"expected recorded routing of layer {layer} for the rows of a step, got gaps")
    hidden = None if trace.hidden is None else torch.from_numpy(trace.hidden[rows, layer]).float()
    weights = None
    if trace.topk_weights is not None:
        weights = torch.from_numpy(trace.topk_weights[rows, layer]).float()
    return hidden, indices, weights


class _SequenceIds:
    """Ids for runs of rows: a row goes on with the run of the row before it, or starts a run of its own.

    Pieces of one sequence that are stepped side by side are thereby sequences of their own.
    """

    def __init__(self, trace: RoutingTrace) -> None:
        self._starts = set(trace.seq_offsets.tolist())
        self._prompt = trace.phase == Phase.PREFILL
        self._last: dict[int, int] = {}
        self._next = 0

    def of(self, rows: IntArray) -> IntArray:
        """Ids of the rows of the next step, int64."""
        found: dict[int, int] = {}
        for row in rows.tolist():
            before = None
            if row not in self._starts:
                # Rows of one step follow each other in prompts only; a decoded token follows the last step.
                before = found.get(row - 1) if self._prompt[row] else None
                before = self._last.pop(row - 1, None) if before is None else before
            if before is None:
                before = self._next
                self._next += 1
            found[row] = before
        self._last |= found
        return np.array(list(found.values()), dtype=np.int64)
