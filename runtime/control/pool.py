"""A pool of device rows whose contents outlive the step, and which row makes way for an incoming expert."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from prescope.formulation.demand import FloatArray
from prescope.runtime.control.residency import Residency

Key = tuple[int, int]
"""Layer and expert."""


class RowPool:
    """Contents of all rows, and the rule by which they are given up.

    Parameters
    ----------
    rows
        Number of rows, at least 1.
    residency
        Scores the contents.
    """

    def __init__(self, rows: int, residency: Residency) -> None:
        if rows < 1:
            raise ValueError(f"expected at least 1 row, got {rows}")
        self.residency = residency
        self._owners: list[Key | None] = [None] * rows
        # The owners once more, as arrays to search; -1 where a row is empty.
        self._layers = np.full(rows, -1, dtype=np.int64)
        self._experts = np.full(rows, -1, dtype=np.int64)
        self._row_of: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def row_of(self, key: Key) -> int | None:
        """Row that holds an expert, or ``None``."""
        return self._row_of.get(key)

    def owner(self, row: int) -> Key | None:
        """Expert that a row holds, or ``None``."""
        return self._owners[row]

    def experts_of(self, layer: int) -> list[int]:
        """Experts of a layer that have a row."""
        return [expert for owner, expert in self._row_of if owner == layer]

    def put(self, row: int, key: Key) -> None:
        """Give a row to an expert; whoever held it loses it."""
        previous = self._owners[row]
        if previous is not None:
            del self._row_of[previous]
        self._owners[row] = key
        self._layers[row], self._experts[row] = key
        self._row_of[key] = row

    def forget(self) -> None:
        """Believe nothing about any row."""
        self._owners = [None] * len(self._owners)
        self._row_of.clear()
        self._layers.fill(-1)
        self._experts.fill(-1)

    def victim(
        self, layer: int, scores: FloatArray, barred: Collection[Key], *, below: float = np.inf
    ) -> int | None:
        """The row to give to an expert of ``layer``, or ``None``.

        Parameters
        ----------
        layer
            Layer of the incoming expert.
        scores
            Worth of every expert, float ``[layers, experts]``.
        barred
            Experts that must stay.
        below
            Only rows whose content is worth less than this.
        """
        quota = self.residency.quota(len(self))
        own_only = quota is not None and int((self._layers == layer).sum()) >= quota
        empty = self._layers < 0
        if not own_only and empty.any():
            return int(empty.argmax())
        worth = np.where(empty, np.inf, scores[self._layers, self._experts])
        worth[[row for row in map(self._row_of.get, barred) if row is not None]] = np.inf
        if own_only:
            worth[self._layers != layer] = np.inf
        row = int(worth.argmin())
        return row if worth[row] < below else None
