"""Batches emulated from validation tokens: pieces of sequences stepped together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import IntArray
from prescope.predictor.calibration.batch_event import batch_load

_PIECE = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmulatedBatches:
    """Which tokens make up each batch, of several sizes.

    Parameters
    ----------
    tokens
        Indices of the tokens of all batches, one after another.
    starts
        Where each batch starts in ``tokens``; the last entry is the end.
    """

    tokens: IntArray
    starts: IntArray

    @classmethod
    def of(cls, sequence: IntArray, sizes: Sequence[int]) -> EmulatedBatches:
        """Make batches of every size from tokens in text order.

        Parameters
        ----------
        sequence
            Sequence of each token; tokens of one sequence stand together.
        sizes
            Tokens per batch. Sizes with fewer sequences than that take pieces of the same sequence too,
            those of different sequences first.
        """
        edges = [0, *(np.flatnonzero(np.diff(sequence)) + 1).tolist(), len(sequence)]
        pieces = (
            sorted(
                (at - start, start, np.arange(at, min(at + _PIECE, end)))
                for start, end in pairwise(edges)
                for at in range(start, end, _PIECE)
            )
            if len(sequence)
            else []
        )
        groups: list[IntArray] = []
        for size in sizes:
            for first in range(0, len(pieces), size):
                part = [piece for _, _, piece in pieces[first : first + size]]
                for step in range(max(len(piece) for piece in part)):
                    groups.append(np.array([piece[step] for piece in part if step < len(piece)]))
        starts = np.cumsum([0, *(len(group) for group in groups)])
        joined = np.concatenate(groups) if groups else np.zeros(0, dtype=np.int64)
        return cls(tokens=joined.astype(np.int64), starts=starts.astype(np.int64))

    def events(
        self, probability: npt.NDArray[np.floating[Any]], chosen: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], IntArray]:
        """Loads and outcomes of all experts, ``[batches, experts]``, and the sizes of the batches."""
        if len(self.starts) < 2:
            empty = np.zeros((0, probability.shape[1]))
            return empty, empty > 0, np.zeros(0, dtype=np.int64)
        loads = batch_load(probability[None])
        load = np.add.reduceat(loads[self.tokens], self.starts[:-1], axis=0)
        happened = np.add.reduceat(chosen[self.tokens].astype(np.int64), self.starts[:-1], axis=0) > 0
        return load, happened, np.diff(self.starts)
