"""Which memory row holds which resident and stands behind which slot, where the two exchange rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

Key = tuple[int, int]
"""Layer and expert."""


def resident_rows(residents: Sequence[Sequence[int]], slots: int) -> dict[Key, int]:
    """Rows at the start: the slots have the first ones, then come the residents in order."""
    keys = ((layer, expert) for layer, row in enumerate(residents) for expert in row)
    return {key: slots + at for at, key in enumerate(keys)}


class Places:
    """Rows of equal size. To exchange is to give a slot's row to its expert and a resident's to the slot.

    Parameters
    ----------
    residents
        Per layer, the experts that have a row of their own at first.
    slots
        Number of slots, each with a row behind it.

    Attributes
    ----------
    rows
        Number of rows.
    """

    def __init__(self, residents: Sequence[Sequence[int]], slots: int) -> None:
        self._layers = len(residents)
        self._slot_rows = list(range(slots))
        self._rows = resident_rows(residents, slots)
        self.rows = slots + len(self._rows)
        self.begin_step()

    def slot_row(self, slot: int) -> int:
        """The row behind a slot."""
        return self._slot_rows[slot]

    def resident_row(self, layer: int, expert: int) -> int:
        """The row of a resident."""
        return self._rows[layer, expert]

    def residents(self) -> tuple[tuple[int, ...], ...]:
        """Who has a row of its own, per layer, ascending."""
        found: list[list[int]] = [[] for _ in range(self._layers)]
        for layer, expert in self._rows:
            found[layer].append(expert)
        return tuple(tuple(sorted(row)) for row in found)

    def contents(self) -> Iterator[tuple[int, int, int]]:
        """``(row, layer, expert)`` of all residents."""
        return ((row, layer, expert) for (layer, expert), row in self._rows.items())

    def begin_step(self) -> None:
        """Remember the rows as they are now, for `recover`."""
        self._before = dict(self._rows)

    def exchange(self, slot: int, layer: int, expert: int, victim: int) -> None:
        """The expert in a slot stays where it is; the slot goes on with the victim's row."""
        row = self._rows.pop((layer, victim))
        self._rows[layer, expert] = self._slot_rows[slot]
        self._slot_rows[slot] = row

    def recover(self, written: Collection[int], lost: Collection[int]) -> list[tuple[int, int, int]]:
        """Have the residents that there were at the start of the step, after one that failed.

        Parameters
        ----------
        written
            Rows that copies of the step may have written.
        lost
            Rows that may still be written, whatever the cause.

        Returns
        -------
        list[tuple[int, int, int]]
            ``(row, layer, expert)`` of those that must be read again. Where fewer rows are left than there
            were residents, the last ones lose their place.
        """
        rows = set(range(self.rows))
        kept = {key: row for key, row in self._before.items() if row not in written and row not in lost}
        free = sorted(rows - set(kept.values()) - set(lost), reverse=True)
        again: list[tuple[int, int, int]] = []
        for key in self._before:
            if key not in kept and free:
                kept[key] = free.pop()
                again.append((kept[key], *key))
        left = sorted(rows - set(kept.values()))
        # The slots are as many as before, the lost rows among them.
        self._slot_rows = left[: len(self._slot_rows)]
        self._rows = kept
        self.begin_step()
        return again
