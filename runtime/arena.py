"""Device memory for expert weights: fixed rows for residents, and slots that copies fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prescope.formulation import format_bytes
from prescope.runtime.errors import PlanError
from prescope.runtime.places import resident_rows

if TYPE_CHECKING:
    from torch import Tensor

    from prescope.runtime.store import ExpertStore


class DeviceArena:
    """All device memory that expert weights ever use, taken once.

    Slots start as NaN, so weights that were never copied cannot be mistaken for any.

    Parameters
    ----------
    store
        Where the weights come from; the residents are copied from it now.
    residents
        Per layer, the experts with a row of their own.
    slots
        Number of buffers, each large enough for the largest expert wherever the store places it. Slots and
        residents may exchange rows (`prescope.runtime.places`) where all experts have one size.
    budget_bytes
        Memory allowed; ``None`` for no limit.

    Raises
    ------
    PlanError
        When residents and slots need more than the budget, or a resident is unknown.
    """

    def __init__(
        self,
        store: ExpertStore,
        *,
        residents: Sequence[Sequence[int]],
        slots: int,
        budget_bytes: int | None = None,
    ) -> None:
        import torch

        if len(residents) != store.layers:
            raise PlanError(f"expected residents for {store.layers} layers, got {len(residents)}")
        for layer, row in enumerate(residents):
            if any(not 0 <= expert < store.experts for expert in row) or len(set(row)) != len(row):
                raise PlanError(
                    f"expected distinct residents in [0, {store.experts - 1}] in layer {layer}, "
                    f"got {tuple(row)}"
                )
        self.size_bytes = arena_bytes(store, residents=residents, slots=slots)
        if budget_bytes is not None and self.size_bytes > budget_bytes:
            raise PlanError(
                f"expected residents and slots within {format_bytes(budget_bytes)}, got "
                f"{sum(map(len, residents))} residents and {slots} slots of {format_bytes(self.size_bytes)}"
            )
        self._store = store
        # Ordinary tensors even under inference mode: threads in any mode write to them.
        with torch.inference_mode(False):
            self._slots = store.new_slots(slots) if slots else torch.empty((0, 0), dtype=store.dtype)
            self._slots.fill_(float("nan"))
            self._residents = [
                torch.empty((len(row), store.elements(layer)), dtype=store.dtype)
                for layer, row in enumerate(residents)
            ]
            for layer, row in enumerate(residents):
                for at, expert in enumerate(row):
                    store.read(layer, expert, self._residents[layer][at])
        self._row_of = [{expert: row for row, expert in enumerate(experts)} for experts in residents]
        self.contents = tuple((row, *key) for key, row in resident_rows(residents, self.slots).items())
        self._more = [row for rows in self._residents for row in rows]

    @property
    def slots(self) -> int:
        """Number of slots."""
        return int(self._slots.shape[0])

    @property
    def rows(self) -> int:
        """Number of rows: first those of the slots, then those of the residents in order."""
        return self.slots + len(self._more)

    def is_resident(self, layer: int, expert: int) -> bool:
        """Whether an expert has a row of its own."""
        return expert in self._row_of[layer]

    def resident_row(self, layer: int, expert: int) -> Tensor:
        """Flat weights ``[elements]`` of a resident.

        Raises
        ------
        PlanError
            When the expert is not resident.
        """
        row = self._row_of[layer].get(expert)
        if row is None:
            raise PlanError(f"expected a resident of layer {layer}, got expert {expert}")
        return self._residents[layer][row]

    def slot_row(self, slot: int, layer: int, expert: int) -> Tensor:
        """The part of a slot, or of another row by its number, that an expert fills, flat ``[elements]``."""
        return self._store.place(layer, expert, self._row(slot))

    def load(self, row: int, layer: int, expert: int) -> None:
        """Read an expert into a row, at once."""
        self._store.read(layer, expert, self.slot_row(row, layer, expert))

    def device_row(self, layer: int, expert: int, slot: int | None) -> Tensor:
        """Where a computation on the device reads: its slot or row, or the resident's where none is named."""
        return self.resident_row(layer, expert) if slot is None else self.slot_row(slot, layer, expert)

    def poison(self, slot: int) -> None:
        """Fill a slot, or another row by its number, with NaN."""
        self._row(slot).fill_(float("nan"))

    def _row(self, row: int) -> Tensor:
        return self._slots[row] if row < self.slots else self._more[row - self.slots]


def arena_bytes(store: ExpertStore, *, residents: Sequence[Sequence[int]], slots: int) -> int:
    """Bytes that an arena with these residents and slots takes."""
    largest = max(store.slot_elements(layer) for layer in range(store.layers)) * store.dtype.itemsize
    pinned = sum(store.row_bytes(layer) * len(row) for layer, row in enumerate(residents))
    return pinned + slots * largest
