"""Keeps the routing of an engine's steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from prescope.formulation.demand import FloatArray, IntArray
from prescope.instances import Phase, RoutingTrace, TraceMeta


@dataclass(slots=True)
class _Step:
    sequences: IntArray
    prefill: bool
    ids: list[IntArray] = field(default_factory=list)
    weights: list[FloatArray] = field(default_factory=list)
    hidden: list[FloatArray] = field(default_factory=list)


class RoutingRecorder:
    """Collects the chosen experts and routing weights of every real token.

    Parameters
    ----------
    layers
        Number of MoE layers.
    hidden
        Keep the gating inputs too, as float16: ``2 * layers * hidden_size`` bytes per token.
    """

    def __init__(self, *, layers: int, hidden: bool = False) -> None:
        self._layers = layers
        self._keep_hidden = hidden
        self._group = 0
        self._steps: list[_Step] = []

    def begin_sequences(self) -> None:
        """The next steps belong to new sequences."""
        if self._steps:
            self._group = 1 + max(int(step.sequences.max(initial=-1)) for step in self._steps)

    def begin_step(self, real: Tensor, shape: tuple[int, int]) -> None:
        """A step over ``shape`` (batch, tokens) with these real rows begins."""
        if self._steps and len(self._steps[-1].ids) < self._layers:
            # A step that failed half-way is not a recording.
            self._steps.pop()
        sequences = self._group + (real // shape[1]).numpy().astype(np.int64)
        self._steps.append(_Step(sequences=sequences, prefill=shape[1] > 1))

    def gate(self, indices: Tensor, weights: Tensor, hidden: Tensor) -> None:
        """The next gate of the running step, real rows only."""
        step = self._steps[-1]
        step.ids.append(indices.cpu().numpy().astype(np.int64))
        step.weights.append(weights.detach().float().cpu().numpy())
        if self._keep_hidden:
            step.hidden.append(hidden.detach().half().cpu().numpy())

    def step_counts(self, experts: int) -> list[IntArray]:
        """Tokens of each expert of every complete step, int64 ``[layers, experts]`` each."""
        return [
            np.stack([np.bincount(ids.reshape(-1), minlength=experts) for ids in step.ids]).astype(np.int64)
            for step in self._complete()
        ]

    def trace(self, *, meta: TraceMeta) -> RoutingTrace:
        """All complete steps as one trace, sequence by sequence.

        Raises
        ------
        ValueError
            When no step was recorded.
        """
        steps = self._complete()
        if not steps:
            raise ValueError("expected at least one recorded step, got none")
        sequence = np.concatenate([step.sequences for step in steps])
        phase = np.concatenate(
            [
                np.full(step.sequences.shape[0], Phase.PREFILL if step.prefill else Phase.DECODE)
                for step in steps
            ]
        )
        order = np.argsort(sequence, kind="stable")
        _, lengths = np.unique(sequence, return_counts=True)

        def tokens_first(arrays: list[list[FloatArray]] | list[list[IntArray]]) -> npt.NDArray[Any]:
            return np.concatenate([np.stack(layers, axis=1) for layers in arrays])[order]

        return RoutingTrace(
            topk_ids=tokens_first([step.ids for step in steps]).astype(np.int16),
            topk_weights=tokens_first([step.weights for step in steps]).astype(np.float32),
            hidden=tokens_first([step.hidden for step in steps]) if self._keep_hidden else None,
            seq_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            phase=phase[order].astype(np.uint8),
            meta=meta,
        )

    def _complete(self) -> list[_Step]:
        return [step for step in self._steps if len(step.ids) == self._layers]
