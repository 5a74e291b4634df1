"""Puts the rows of a log together to a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.instances.importers.log_header import LogHeader
from prescope.instances.limits import MAX_TRACE_BYTES
from prescope.instances.routing_trace import NOT_RECORDED, RoutingTrace

ABSENT = -2
"""Expert id of an entry that no row was about."""

_FIRST_TOKENS = 64
# A log may leave entries out, but not make a large trace of a few rows.
_FREE_ENTRIES, _ENTRIES_PER_ROW = 1 << 20, 64


class TraceBuilder:
    """Growing arrays, one row a token, in the order in which tokens were first seen.

    Attributes
    ----------
    tokens : int
        Tokens so far.
    ids, weights, sequence, position, phase, token, padding : numpy.ndarray
        Per token: ``[capacity, layers, k]`` for the first two, ``[capacity]`` for the others; the rows from
        ``tokens`` on are not in use. They are other arrays after `add`.
    """

    def __init__(self, header: LogHeader) -> None:
        self._header = header
        width = (header.layers, header.meta.top_k)
        self.tokens = 0
        self.entries = 0
        self.ids = np.empty((0, *width), dtype=np.int16)
        self.weights = np.empty((0, *width), dtype=header.weights)
        self.sequence = np.empty(0, dtype=np.int64)
        self.position = np.empty(0, dtype=np.int64)
        self.phase = np.empty(0, dtype=np.uint8)
        self.token = np.empty(0, dtype=np.int32)
        self.padding = np.empty(0, dtype=np.bool_)

    def add(self, count: int) -> int:
        """Make place for ``count`` more tokens and return the row of the first.

        Raises
        ------
        ValueError
            When the trace would be too large, or far too large for the rows it comes from.
        """
        first, self.tokens = self.tokens, self.tokens + count
        header = self._header
        entries = self.tokens * header.layers * header.meta.top_k
        size_bytes = entries * (self.ids.itemsize + self.weights.itemsize)
        if size_bytes > MAX_TRACE_BYTES:
            raise ValueError(
                f"expected a trace of at most {MAX_TRACE_BYTES} bytes, got {size_bytes} for {self.tokens} "
                "tokens: split the log"
            )
        if entries > _FREE_ENTRIES + _ENTRIES_PER_ROW * self.entries:
            raise ValueError(
                f"expected rows about most of the {entries} entries of {self.tokens} tokens, {header.layers} "
                f"layers and {header.meta.top_k} experts each, got {self.entries}: check layers and top_k"
            )
        if self.tokens > len(self.ids):
            self._grow(max(_FIRST_TOKENS, self.tokens, len(self.ids) + len(self.ids) // 2))
        return first

    def _grow(self, capacity: int) -> None:
        before = len(self.ids)
        for array in (*self._per_token(), self.ids, self.weights):
            # In place: the system moves pages instead of copying them.
            array.resize((capacity, *array.shape[1:]), refcheck=False)
        self.ids[before:] = ABSENT

    def _per_token(self) -> tuple[npt.NDArray[Any], ...]:
        return self.sequence, self.position, self.phase, self.token, self.padding

    def finish(self, *, weights: bool, token_ids: bool, header: LogHeader) -> RoutingTrace:
        """The trace, sequence by sequence, each in the order of its positions.

        Parameters
        ----------
        weights, token_ids
            Whether the log had them.
        header
            The header, with what only the rows told.

        Raises
        ------
        ValueError
            When there is no token.
        """
        if not self.tokens:
            raise ValueError("expected at least one token, got none")
        for array in (*self._per_token(), self.ids, self.weights):
            array.resize((self.tokens, *array.shape[1:]), refcheck=False)
        order = np.lexsort((self.position, self.sequence))
        if (np.diff(order) != 1).any():
            for array in self._per_token():
                array[:] = array[order]
            for array in (self.ids, self.weights):
                # Layer by layer: never a second copy of the whole.
                for layer in range(array.shape[1]):
                    array[:, layer] = array[order, layer]
        np.maximum(self.ids, NOT_RECORDED, out=self.ids)
        self.ids.flags.writeable = self.weights.flags.writeable = False
        _, lengths = np.unique(self.sequence, return_counts=True)

        def sizes(values: tuple[int, ...] | None) -> npt.NDArray[np.int64] | None:
            return None if values is None else np.array(values, dtype=np.int64)

        return RoutingTrace(
            topk_ids=self.ids,
            topk_weights=self.weights if weights else None,
            token_ids=self.token if token_ids else None,
            padding=self.padding,
            phase=self.phase,
            seq_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            expert_bytes=sizes(header.expert_bytes),
            dense_bytes=sizes(header.dense_bytes),
            meta=header.meta,
        )
