"""Keeps the routing of an engine's steps."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prescope.formulation.demand import FloatArray, IntArray
from prescope.instances import Phase, RoutingTrace, TraceMeta
from prescope.runtime.plugin.moe_layers import MoeLayer


@dataclass(slots=True)
class _Step:
    sequences: IntArray
    prefill: bool
    tokens: IntArray | None
    ids: list[IntArray] = field(default_factory=list)
    weights: list[FloatArray] = field(default_factory=list)
    hidden: list[FloatArray] = field(default_factory=list)


class RoutingRecorder:
    """Collects the chosen experts and routing weights of every real token.

    Parameters
    ----------
    hidden
        Keep the gating inputs too, as float16: 2 bytes per layer, token and channel.
    """

    def __init__(self, *, hidden: bool = False) -> None:
        self._keep_hidden = hidden
        self._group = 0
        self._steps: list[_Step] = []
        self._running: _Step | None = None

    def begin_sequences(self) -> None:
        """The next steps belong to new sequences."""
        if self._steps:
            self._group = 1 + max(int(step.sequences.max(initial=-1)) for step in self._steps)

    def begin_step(
        self, real: Tensor, shape: tuple[int, int], ids: Tensor | None, *, first: bool = False
    ) -> None:
        """A step over ``shape`` (batch, tokens) with these real rows and, if known, token ids begins.

        ``first`` says that nothing came before: a prompt, even if it is one token long.
        """
        sequences = self._group + (real // shape[1]).numpy().astype(np.int64)
        tokens = None if ids is None else ids.detach().cpu().reshape(-1)[real].numpy().astype(np.int64)
        self._running = _Step(sequences=sequences, prefill=first or shape[1] > 1, tokens=tokens)

    def gate(self, indices: Tensor, weights: Tensor, hidden: Tensor) -> None:
        """The next gate of the running step, real rows only."""
        step = self._running
        if step is None:
            raise RuntimeError("expected begin_step before a gate, got none")
        step.ids.append(indices.cpu().numpy().astype(np.int64))
        step.weights.append(weights.detach().float().cpu().numpy())
        if self._keep_hidden:
            step.hidden.append(hidden.detach().half().cpu().numpy())

    def end_step(self) -> None:
        """The running step is complete; one that never ends is not a recording."""
        if self._running is not None:
            self._steps.append(self._running)
        self._running = None

    def forget(self) -> None:
        """Drop what was recorded; what comes next are new sequences."""
        self._steps.clear()
        self._group = 0

    def step_counts(self, experts: int) -> list[IntArray]:
        """Tokens of each expert of every step, int64 ``[layers, experts]`` each."""
        return [
            np.stack([np.bincount(ids.reshape(-1), minlength=experts) for ids in step.ids]).astype(np.int64)
            for step in self._steps
        ]

    def trace(self, *, meta: TraceMeta) -> RoutingTrace:
        """All steps as one trace, sequence by sequence.

        Raises
        ------
        ValueError
            When no step was recorded.
        """
        steps = self._steps
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

        inputs = [step.tokens for step in steps if step.tokens is not None]
        return RoutingTrace(
            topk_ids=tokens_first([step.ids for step in steps]).astype(np.int16),
            topk_weights=tokens_first([step.weights for step in steps]).astype(np.float32),
            hidden=tokens_first([step.hidden for step in steps]) if self._keep_hidden else None,
            # Whole or not at all: passes over embeddings have no ids.
            token_ids=np.concatenate(inputs)[order].astype(np.int32) if len(inputs) == len(steps) else None,
            seq_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            phase=phase[order].astype(np.uint8),
            meta=meta,
        )


def trace_meta(
    model: Any, layers: tuple[MoeLayer, ...], *, experts: int, source: str, notes: str
) -> TraceMeta:
    """Where a trace comes from: a model, identified by its gates, and what the caller says of it."""
    name = str(getattr(model.config, "name_or_path", "") or model.config.model_type)
    return TraceMeta(
        # A local path says nothing to others and may say too much.
        model=name.rstrip("/").rpartition("/")[2],
        experts=experts,
        top_k=int(layers[0].router.top_k),
        fingerprint=gates_fingerprint(layers),
        source=source,
        notes=notes,
    )


def gates_fingerprint(layers: tuple[MoeLayer, ...]) -> str:
    """Checksum of all gate weights, which are in memory wherever the experts are; eight hex digits."""
    total = 0
    for layer in layers:
        weight = layer.router.weight.detach().cpu().contiguous()
        total = zlib.crc32(weight.view(torch.uint8).numpy().tobytes(), total)
    return f"{total:08x}"
