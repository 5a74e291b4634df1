"""Which rows of a forward pass are real: not padding, not finished."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prescope.formulation.demand import IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForwardCall:
    """What a forward pass is called with.

    Parameters
    ----------
    ids
        Token ids ``[batch, tokens]``, or ``None`` with embeddings.
    mask
        Attention mask of any form, or ``None``.
    batch, tokens
        Shape of the pass.
    past
        Tokens per row in the cache already.
    """

    ids: Tensor | None
    mask: Any
    batch: int
    tokens: int
    past: int


@dataclass(slots=True, kw_only=True, eq=False)
class _Generation:
    """State of one ``generate``: end tokens, finished rows, and the tokens of its last pass."""

    end_ids: tuple[int, ...]
    finished: Tensor | None = None
    last_tokens: int | None = None


class RowTracker:
    """Follows a model's forward passes and knows the real token rows of the current one.

    Padding is read off the attention mask; where the mask leaves a doubt, a row is real. Inside ``generate``
    without beams, a row that has emitted an end token is finished: what it is fed from then on is computed by
    the stock code and thrown away.
    """

    def __init__(self) -> None:
        self._mask: Tensor | None = None
        self._generation = _Generation(end_ids=())
        self._outer: list[_Generation] = []
        self._call: ForwardCall | None = None
        self._first_sequence = self._next_sequence = 0

    def begin_generate(self, end_ids: tuple[int, ...]) -> None:
        """Enter ``generate``; ``end_ids`` is empty where finished rows cannot be told (beams)."""
        self._outer.append(self._generation)
        self._generation = _Generation(end_ids=end_ids)

    def end_generate(self) -> None:
        """Leave the ``generate`` entered last."""
        self._generation = self._outer.pop()

    def begin_forward(self, call: ForwardCall) -> None:
        """Start a forward pass."""
        real = torch.ones(call.batch, call.tokens, dtype=torch.bool)
        real &= _unpadded(call)
        finished = self._finished(call)
        if finished is not None:
            real &= ~finished[:, None]
        self._mask = real.reshape(-1)
        self._call = call
        if call.past == 0 or call.batch != self._next_sequence - self._first_sequence:
            self._first_sequence = self._next_sequence
            self._next_sequence += call.batch

    def sequences(self, rows: Tensor) -> IntArray:
        """Which sequence each of these rows of the pass continues, int64; ids are never used again.

        Rows keep their place in the batch from pass to pass: where beams are reordered, an id follows the
        place and not the text.
        """
        call = self._begun()
        return self._first_sequence + (rows // call.tokens).numpy().astype(np.int64)

    def token_ids(self, rows: Tensor) -> IntArray | None:
        """Input tokens of these rows of the pass, int64; ``None`` with embeddings."""
        ids = self._begun().ids
        return None if ids is None else ids.reshape(-1).cpu()[rows].numpy().astype(np.int64)

    def _begun(self) -> ForwardCall:
        if self._call is None:
            raise RuntimeError("expected begin_forward first, got no forward pass")
        return self._call

    def real_rows(self, rows: int) -> Tensor:
        """Indices of the real rows among ``rows`` flattened ones, int64, ascending."""
        if self._mask is None or self._mask.shape[0] != rows:
            return torch.arange(rows)
        return self._mask.nonzero()[:, 0]

    def _finished(self, call: ForwardCall) -> Tensor | None:
        """Rows of the pass that are finished, bool ``[batch]``."""
        state, last = self._generation, self._generation.last_tokens
        state.last_tokens = call.tokens
        # Each row has one token more than the prompt's pass had: alone, or after all others without a cache.
        if not state.end_ids or call.ids is None or last is None or call.tokens not in (1, last + 1):
            return None
        ended = torch.isin(call.ids[:, -1].cpu(), torch.tensor(state.end_ids))
        if state.finished is not None and state.finished.shape == ended.shape:
            ended |= state.finished
        state.finished = ended
        return ended


def _unpadded(call: ForwardCall) -> Tensor:
    """Which tokens the mask does not show to be padding, bool, broadcastable to ``[batch, tokens]``."""
    mask, end = call.mask, call.past + call.tokens
    if not isinstance(mask, Tensor) or mask.shape[-1] < end or mask.shape[0] not in (1, call.batch):
        return torch.ones(1, 1, dtype=torch.bool)
    keys = mask[..., call.past : end].cpu()
    if mask.ndim == 2:
        return keys.to(torch.bool)
    if mask.ndim != 4:
        return torch.ones(1, 1, dtype=torch.bool)
    seen = keys > torch.finfo(keys.dtype).min / 2 if keys.is_floating_point() else keys.to(torch.bool)
    # Made ahead for a static cache: padding is what no token of the pass looks at.
    return seen.flatten(1, 2).any(dim=1)
