"""What each sequence of a batch did in its last tokens, kept between steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.instances import NOT_RECORDED

_Rows = npt.NDArray[np.float32]


class SequenceMemory:
    """Last choice and moving averages of every sequence and layer.

    A layer is brought up to date when its gate is observed, so before that it holds the previous token. A
    row whose sequence is new starts from the prior. The sequences unused for longest are forgotten.

    Parameters
    ----------
    prior
        Share of each expert, ``[layers, experts]``, from which averages start.
    top_k
        Experts per token at most.
    decays
        What is left of each moving average after one token, in [0, 1).
    capacity
        Sequences remembered at most; a batch of more is remembered in part.
    """

    def __init__(
        self, *, prior: FloatArray, top_k: int, decays: Sequence[float] = (), capacity: int = 256
    ) -> None:
        layers, experts = prior.shape
        self._prior = prior.astype(np.float32)
        self._decays = np.asarray(decays, dtype=np.float32)
        # Row 0 is the start of every sequence and is never written.
        shape = (1 + capacity, layers)
        self._ids = np.full((*shape, top_k), NOT_RECORDED, dtype=np.int64)
        self._weights = np.zeros((*shape, top_k), dtype=np.float32)
        self._averages = np.zeros((len(decays), *shape, experts), dtype=np.float32)
        self._averages[:, 0] = self._prior
        self._place: dict[int, int] = {}
        self._free = list(range(capacity, 0, -1))
        self._places = np.zeros(0, dtype=np.int64)
        self._one_each = True

    def begin_step(self, tokens: int, sequences: IntArray | None) -> None:
        """Say which sequence each row continues; where that is unknown, row ``i`` continues row ``i``."""
        wanted = range(tokens) if sequences is None else [int(name) for name in sequences]
        names = dict.fromkeys(wanted)
        for name in names:
            if (place := self._place.pop(name, None)) is not None:
                # Re-inserted at the end: the dictionary is in order of last use.
                self._place[name] = place
        for name in names:
            if name not in self._place and (place := self._take(names)):
                self._place[name] = place
        self._places = np.array([self._place.get(name, 0) for name in wanted], dtype=np.int64)
        self._one_each = len(names) == tokens and bool((self._places > 0).all())

    def observe(self, layer: int, ids: IntArray, weights: npt.ArrayLike | None) -> None:
        """Remember what the rows of the running step chose in a layer, ids ``[tokens, top_k]``."""
        scales = np.zeros(ids.shape, dtype=np.float32) if weights is None else np.asarray(weights, np.float32)
        if self._one_each:
            self._update(layer, self._places, ids, scales)
            return
        # Several tokens of one sequence, as in a prompt: one after another.
        for place in np.unique(self._places[self._places > 0]).tolist():
            for row in np.flatnonzero(self._places == place):
                self._update(layer, self._places[row : row + 1], ids[row : row + 1], scales[row : row + 1])

    def last(self, layer: int) -> tuple[IntArray, _Rows]:
        """Ids and weights of each row's previous token, ``[tokens, top_k]``; `NOT_RECORDED` without one."""
        return self._ids[self._places, layer], self._weights[self._places, layer]

    def last_of_all(self) -> tuple[IntArray, _Rows]:
        """`last` of every layer, ``[tokens, layers, top_k]``, as arrays of the caller's own."""
        return self._ids[self._places], self._weights[self._places]

    def averages_of_all(self) -> _Rows:
        """`averages` of every layer, ``[decays, tokens, layers, experts]``: the caller's own array."""
        found: _Rows = self._averages[:, self._places]
        return found

    def averages(self, layer: int) -> _Rows:
        """Moving averages of each row's sequence, float32 ``[decays, tokens, experts]``."""
        found: _Rows = self._averages[:, self._places, layer]
        return found

    def _update(self, layer: int, places: IntArray, ids: IntArray, scales: _Rows) -> None:
        self._ids[places, layer] = ids
        self._weights[places, layer] = scales
        if not self._decays.size:
            return
        averages = self._averages[:, places, layer] * self._decays[:, None, None]
        averages[:, np.arange(len(places))[:, None], ids] += (1.0 - self._decays)[:, None, None]
        self._averages[:, places, layer] = averages

    def _take(self, keep: dict[int, None]) -> int:
        """A place for a new sequence; 0 when all are taken by sequences of the running step."""
        if not self._free:
            oldest = next(iter(self._place))
            if oldest in keep:
                return 0
            self._free.append(self._place.pop(oldest))
        place = self._free.pop()
        self._ids[place] = NOT_RECORDED
        self._weights[place] = 0.0
        self._averages[:, place] = self._prior
        return place
