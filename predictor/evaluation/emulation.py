"""Batches as a server would run them, emulated from recorded sequences."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prescope.formulation import Demand
from prescope.formulation.checks import require_int
from prescope.formulation.demand import IntArray
from prescope.instances import NOT_RECORDED, BatchStep, Phase, RoutingTrace

_LEAST_PIECE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """A batch whose finished sequences make room for the next ones, so that it stays full.

    Parameters
    ----------
    trace
        Recorded routing. Tokens not recorded in every layer, and padding, are left out.
    sequences
        Which, in this order. Where they are fewer than two batches, their decoded tokens are cut into pieces
        that stand in for sequences, those of different sequences first.
    batch
        Sequences at once.
    """

    trace: RoutingTrace
    sequences: tuple[int, ...]
    batch: int

    def __post_init__(self) -> None:
        require_int("batch", self.batch, 1)
        for sequence in self.sequences:
            require_int("sequence", sequence, 0, self.trace.sequences - 1)
        tokens = sum(len(run) for run in self._runs(Phase.DECODE).values())
        if not tokens:
            raise ValueError(
                f"expected recorded decode tokens in the {len(self.sequences)} sequences to step through, "
                "got none; record with generated tokens"
            )
        if tokens < self.batch:
            raise ValueError(f"expected at least {self.batch} decoded tokens for a batch, got {tokens}")

    def piece(self) -> int | None:
        """Tokens of a piece; ``None`` where no sequence is cut."""
        lengths = [len(run) for run in self._runs(Phase.DECODE).values()]
        if len(lengths) >= 2 * self.batch:
            return None
        size = min(max(lengths), max(_LEAST_PIECE, sum(lengths) // (4 * self.batch)))
        while sum(-(-length // size) for length in lengths) < self.batch:
            size -= 1
        return size

    def steps(self) -> Iterator[tuple[BatchStep, bool]]:
        """Every step with whether it decodes; a prompt is a step of its own before its sequence joins."""
        prompts, runs = self._runs(Phase.PREFILL), self._runs(Phase.DECODE)
        size = self.piece() or self.trace.tokens
        waiting = deque(_pieces(runs, prompts, size))
        running: list[IntArray] = []
        number = 0
        while waiting or running:
            joining = []
            while waiting and len(running) < self.batch:
                run, prompt = waiting.popleft()
                running.append(run)
                if prompt is not None:
                    joining.append(prompt)
            if joining:
                yield self._step(np.concatenate(joining), number), False
                number += 1
            yield self._step(np.array([run[0] for run in running]), number), True
            number += 1
            running = [run[1:] for run in running if len(run) > 1]

    def _runs(self, phase: Phase) -> dict[int, IntArray]:
        """Recorded tokens of every sequence in a phase, where it has any."""
        found = {}
        for sequence in self.sequences:
            start, end = (int(edge) for edge in self.trace.seq_offsets[sequence : sequence + 2])
            wanted = (self.trace.phase[start:end] == phase) & ~self.trace.padding[start:end]
            wanted &= (self.trace.topk_ids[start:end] != NOT_RECORDED).all(axis=(1, 2))
            if wanted.any():
                found[sequence] = start + np.flatnonzero(wanted).astype(np.int64)
        return found

    def _step(self, rows: IntArray, number: int) -> BatchStep:
        rows = np.sort(rows)
        layers, experts = self.trace.layers, self.trace.meta.experts
        flat = self.trace.topk_ids[rows].astype(np.int64) + np.arange(layers)[:, None] * experts
        counts = np.bincount(flat.reshape(-1), minlength=layers * experts).reshape(layers, experts)
        demand = Demand(counts=counts, batch_tokens=len(rows))
        return BatchStep(demand=demand, rows=rows, group=0, step=number)


def _pieces(
    runs: dict[int, IntArray], prompts: dict[int, IntArray], size: int
) -> list[tuple[IntArray, IntArray | None]]:
    """Tokens to decode, with the prompt where they start a sequence; first pieces first."""
    longest = max(len(run) for run in runs.values())
    return [
        (run[at : at + size], prompts.get(sequence) if at == 0 else None)
        for at in range(0, longest, size)
        for sequence, run in runs.items()
        if at < len(run)
    ]
