"""Which rows of a forward pass are real: not padding, not finished."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class RowTracker:
    """Follows a model's forward passes and knows the real token rows of the current one.

    Padding is read off the attention mask. Inside ``generate`` without beams, a row that has emitted an
    end token is finished: what it is fed from then on is computed by the stock code and thrown away.
    """

    def __init__(self) -> None:
        self._mask: Tensor | None = None
        self._end_ids: tuple[int, ...] = ()
        self._finished: Tensor | None = None
        self._prompt_seen = False

    def begin_generate(self, end_ids: tuple[int, ...]) -> None:
        """Enter ``generate``; ``end_ids`` is empty where finished rows cannot be told (beams)."""
        self._end_ids = end_ids
        self._finished = None
        self._prompt_seen = False

    def end_generate(self) -> None:
        """Leave ``generate``."""
        self.begin_generate(())

    def begin_forward(self, ids: Tensor | None, mask: Any, shape: tuple[int, int]) -> None:
        """Start a forward pass of ``shape`` (batch, tokens) with its ids and attention mask, if any."""
        rows, tokens = shape
        real = torch.ones(rows, tokens, dtype=torch.bool)
        if isinstance(mask, Tensor) and mask.ndim == 2 and mask.shape[0] == rows and mask.shape[1] >= tokens:
            real &= mask[:, -tokens:].to(device="cpu", dtype=torch.bool)
        if self._end_ids and ids is not None and tokens == 1 and self._prompt_seen:
            ended = torch.isin(ids[:, 0].cpu(), torch.tensor(self._end_ids))
            if self._finished is not None and self._finished.shape == ended.shape:
                ended |= self._finished
            self._finished = ended
            real &= ~ended[:, None]
        self._prompt_seen = True
        self._mask = real.reshape(-1)

    def real_rows(self, rows: int) -> Tensor:
        """Indices of the real rows among ``rows`` flattened ones, int64, ascending."""
        if self._mask is None or self._mask.shape[0] != rows:
            return torch.arange(rows)
        return self._mask.nonzero()[:, 0]

    @property
    def sequences(self) -> Tensor | None:
        """Finished flags of the running ``generate``, bool ``[batch]``, or ``None``."""
        return self._finished
