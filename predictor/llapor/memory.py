"""What each sequence's last token showed at all layers, kept between steps."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from prescope.formulation.demand import IntArray
from prescope.predictor.llapor.rows import Histories


class HistoryMemory:
    """Histories of the sequences used last.

    Parameters
    ----------
    history, trend
        Components of a history, and how many of them are averaged.
    decay
        What is left of the average after one token.
    capacity
        Sequences remembered at most.
    """

    def __init__(self, *, history: int, trend: int, decay: float, capacity: int = 1024) -> None:
        self._trend_width, self._decay, self._capacity = trend, decay, capacity
        self._last = torch.zeros(capacity, history)
        self._trend = torch.zeros(capacity, trend)
        # Sequence to row, in order of last use.
        self._place: dict[int, int] = {}

    def recall(self, sequences: IntArray) -> Histories:
        """Histories of a step's rows: of a sequence's first row only, as nothing is known of the others."""
        rows = len(sequences)
        found = Histories(
            last=torch.zeros(rows, self._last.shape[1]),
            trend=torch.zeros(rows, self._trend_width),
            known=torch.zeros(rows, 1),
        )
        names, first = np.unique(sequences, return_index=True)
        pairs = [
            (at, self._place[name])
            for name, at in zip(names.tolist(), first, strict=True)
            if name in self._place
        ]
        if pairs:
            at, place = torch.tensor(pairs).T
            found.last[at], found.trend[at], found.known[at] = self._last[place], self._trend[place], 1.0
        return found

    def remember(self, sequences: IntArray, now: Tensor) -> None:
        """Take in the histories ``[rows, history]`` of a finished step, rows of a sequence in text order."""
        names, back = np.unique(sequences, return_inverse=True)
        if len(names) == len(sequences):
            # One row each, as in decoding; of more sequences than are remembered the last ones stay.
            self._one_each(sequences[-self._capacity :].tolist(), now[-self._capacity :])
            return
        for number, name in enumerate(names.tolist()):
            self._several(name, now[torch.from_numpy(np.flatnonzero(back == number))])

    def _one_each(self, names: list[int], now: Tensor) -> None:
        if not names:
            return
        for name in names:
            if name in self._place:
                # To the end of the order, so that a new name does not take its row.
                self._place[name] = self._place.pop(name)
        place, fresh = (torch.tensor(part) for part in zip(*map(self._touch, names), strict=True))
        before = torch.where(fresh[:, None], 0.0, self._trend[place])
        self._trend[place] = self._decay * before + (1.0 - self._decay) * now[:, : self._trend_width]
        self._last[place] = now

    def _several(self, name: int, now: Tensor) -> None:
        place, fresh = self._touch(name)
        before = torch.zeros(self._trend_width) if fresh else self._trend[place]
        left = self._decay ** torch.arange(len(now) - 1, -1, -1, dtype=torch.float32)
        fading = left[:, None] * (1.0 - self._decay) * now[:, : self._trend_width]
        self._trend[place] = self._decay ** len(now) * before + fading.sum(dim=0)
        self._last[place] = now[-1]

    def _touch(self, name: int) -> tuple[int, bool]:
        """The row of a sequence and whether it is new; it becomes the one used last."""
        place = self._place.pop(name, None)
        fresh = place is None
        if place is None:
            place = len(self._place)
            if place >= self._capacity:
                place = self._place.pop(next(iter(self._place)))
        self._place[name] = place
        return place, fresh
