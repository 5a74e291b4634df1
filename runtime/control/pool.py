"""A pool of device rows whose contents outlive the step, and which row makes way for an incoming expert."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.runtime.control.residency import Residency

Key = tuple[int, int]
"""Layer and expert."""

NOBODY = -1


class RowPool:
    """Contents of all rows, and the rule by which they are given up.

    Parameters
    ----------
    rows
        Number of rows, at least 1.
    residency
        Scores the contents.

    Attributes
    ----------
    owners
        ``layer * experts + expert`` of each row's content, -1 where it is empty; int64 ``[rows]``.
    places
        Row of each expert, -1 without one; int64 ``[layers, experts]``.
    trust_ns
        Of reads ahead, float64 ``[4]``: what they promised to save and what they did, both fading; what they
        have saved since they last broke even, never above 0; and whether they rest (not 0).
    pushed_out
        Who was given up for a read ahead that nobody needed (1), or would have been (2), else 0, until its
        layer runs; int8 ``[layers, experts]``.
    """

    def __init__(self, rows: int, residency: Residency) -> None:
        if rows < 1:
            raise ValueError(f"expected at least 1 row, got {rows}")
        self.residency = residency
        self.owners: IntArray = np.full(rows, NOBODY, dtype=np.int64)
        self.places: IntArray = np.full(residency.scores(0).shape, NOBODY, dtype=np.int64)
        self.trust_ns: FloatArray = np.zeros(4)
        self.pushed_out: npt.NDArray[np.int8] = np.zeros(self.places.shape, dtype=np.int8)

    def __len__(self) -> int:
        return int(self.owners.shape[0])

    def row_of(self, key: Key) -> int | None:
        """Row that holds an expert, or ``None``."""
        row = int(self.places[key])
        return None if row == NOBODY else row

    def owner(self, row: int) -> Key | None:
        """Expert that a row holds, or ``None``."""
        key = int(self.owners[row])
        return None if key == NOBODY else divmod(key, int(self.places.shape[1]))

    def experts_of(self, layer: int) -> list[int]:
        """Experts of a layer that have a row, ascending."""
        held: list[int] = np.flatnonzero(self.places[layer] != NOBODY).tolist()
        return held

    def put(self, row: int, key: Key) -> None:
        """Give a row to an expert; whoever held it loses it."""
        previous = self.owner(row)
        if previous is not None:
            self.places[previous] = NOBODY
        self.owners[row] = key[0] * self.places.shape[1] + key[1]
        self.places[key] = row

    def forget(self) -> None:
        """Believe nothing about any row."""
        self.owners.fill(NOBODY)
        self.places.fill(NOBODY)
        self.pushed_out.fill(0)

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
        layers = np.where(self.owners == NOBODY, NOBODY, self.owners // self.places.shape[1])
        own_only = quota is not None and int((layers == layer).sum()) >= quota
        empty = self.owners == NOBODY
        if not own_only and empty.any():
            return int(empty.argmax())
        worth = np.where(empty, np.inf, scores.reshape(-1)[self.owners])
        worth[[row for row in map(self.row_of, barred) if row is not None]] = np.inf
        if own_only:
            worth[layers != layer] = np.inf
        row = int(worth.argmin())
        return row if worth[row] < below else None
