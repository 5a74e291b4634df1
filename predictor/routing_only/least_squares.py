"""Ridge regression of one source's heads, which share most of their inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prescope.formulation.demand import IntArray
from prescope.predictor.routing_only.design import Design

Head = npt.NDArray[np.float32]
"""Coefficients of one horizon, ``[shared inputs + own inputs, experts]``."""

_CHUNK = 4096


class SourceSums:
    """Normal equations of the heads of one source, over the tokens of one fold.

    Parameters
    ----------
    design
        Inputs.
    source
        Layer of the last gate.
    horizons
        Number of heads.
    """

    def __init__(self, design: Design, source: int, horizons: int) -> None:
        self._design, self._source, self._horizons = design, source, horizons
        self._shared: Tensor | None = None
        self._own: list[tuple[Tensor, Tensor]] = []

    def add(self, tokens: IntArray, *, blank: bool) -> None:
        """Count tokens, once each."""
        for part in _chunks(tokens):
            shared = torch.from_numpy(self._design.shared(self._source, part, blank=blank))
            found = []
            for horizon in range(1, self._horizons + 1):
                own = torch.from_numpy(self._design.own(self._source, horizon, part, blank=blank))
                truth = torch.from_numpy(self._design.truth(self._source, horizon, part))
                both = torch.cat([shared, own], dim=1)
                found.append((own.T @ both, both.T @ truth))
            self._count(shared.T @ shared, found)

    def _count(self, shared: Tensor, own: Sequence[tuple[Tensor, Tensor]]) -> None:
        if self._shared is None:
            self._shared, self._own = shared, list(own)
            return
        self._shared = self._shared + shared
        self._own = [(a + c, b + d) for (a, b), (c, d) in zip(self._own, own, strict=True)]

    @staticmethod
    def solve(parts: Sequence[SourceSums], penalty: float) -> list[Head]:
        """Heads of all horizons, fitted to the tokens of several folds together.

        Raises
        ------
        ValueError
            When the folds have no token.
        """
        total = SourceSums(parts[0]._design, parts[0]._source, parts[0]._horizons)
        for part in parts:
            if part._shared is not None:
                total._count(part._shared, part._own)
        shared = total._shared
        if shared is None:
            raise ValueError("expected tokens to fit, got none")
        return [_head(shared, cross, right, penalty) for cross, right in total._own]


def scores(design: Design, source: int, tokens: IntArray, heads: Sequence[Head]) -> npt.NDArray[np.float32]:
    """Scores of tokens, float32 ``[horizons, tokens, experts]``."""
    found = np.zeros((len(heads), len(tokens), design.experts), dtype=np.float32)
    at = 0
    for part in _chunks(tokens):
        shared = design.shared(source, part, blank=False)
        width = shared.shape[1]
        for horizon, head in enumerate(heads, start=1):
            own = design.own(source, horizon, part, blank=False)
            found[horizon - 1, at : at + len(part)] = shared @ head[:width] + own @ head[width:]
        at += len(part)
    return found


def _head(shared: Tensor, cross: Tensor, right: Tensor, penalty: float) -> Head:
    size = shared.shape[0]
    left = torch.empty(right.shape[0], right.shape[0])
    left[:size, :size] = shared
    left[size:] = cross
    left[:size, size:] = cross[:, :size].T
    left.diagonal().add_(penalty)
    found: Head = torch.cholesky_solve(right, torch.linalg.cholesky(left)).numpy()
    return found


def _chunks(tokens: IntArray) -> Iterator[IntArray]:
    for at in range(0, len(tokens), _CHUNK):
        yield tokens[at : at + _CHUNK]
