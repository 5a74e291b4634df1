"""Ridge regression of one source's heads, which share most of their inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prescope.formulation.demand import IntArray
from prescope.predictor.routing_only.design import Design

_CHUNK = 4096


class SourceSums:
    """Normal equations of the heads of one source.

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
        self._shared: Tensor | float = 0.0
        self._own: list[tuple[Tensor, Tensor] | None] = [None] * horizons

    def add(self, tokens: IntArray, *, blank: bool) -> None:
        """Count tokens, once each."""
        for part in _chunks(tokens):
            shared = torch.from_numpy(self._design.shared(self._source, part, blank=blank))
            self._shared = self._shared + shared.T @ shared
            for horizon in range(1, self._horizons + 1):
                own = torch.from_numpy(self._design.own(self._source, horizon, part, blank=blank))
                truth = torch.from_numpy(self._design.truth(self._source, horizon, part))
                both = torch.cat([shared, own], dim=1)
                cross, right = own.T @ both, both.T @ truth
                if (known := self._own[horizon - 1]) is not None:
                    cross, right = known[0] + cross, known[1] + right
                self._own[horizon - 1] = cross, right

    def solve(self, horizon: int, penalty: float) -> npt.NDArray[np.float32]:
        """Coefficients of a head, ``[shared inputs + own inputs, experts]``."""
        shared, sums = self._shared, self._own[horizon - 1]
        if not isinstance(shared, Tensor) or sums is None:
            raise ValueError("expected tokens to fit, got none")
        cross, right = sums
        size = shared.shape[0]
        left = torch.empty(right.shape[0], right.shape[0])
        left[:size, :size] = shared
        left[size:] = cross
        left[:size, size:] = cross[:, :size].T
        left.diagonal().add_(penalty)
        factor = torch.linalg.cholesky(left)
        found: npt.NDArray[np.float32] = torch.cholesky_solve(right, factor).numpy()
        return found


def _chunks(tokens: IntArray) -> Iterator[IntArray]:
    for at in range(0, len(tokens), _CHUNK):
        yield tokens[at : at + _CHUNK]
