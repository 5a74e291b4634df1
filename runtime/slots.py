"""What each device buffer holds while a program runs, and which changes are legal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from prescope.runtime.errors import SlotStateError


class SlotState(StrEnum):
    """State of a device buffer."""

    FREE = "free"
    LOADING = "loading"
    READY = "ready"
    IN_USE = "in use"
    UNKNOWN = "unknown"
    ZOMBIE = "zombie"


@dataclass(slots=True, kw_only=True)
class _Slot:
    state: SlotState = SlotState.FREE
    holds: tuple[int, int] | None = None
    readers: int = 0


class SlotTable:
    """States of all slots. It orders nothing: it only refuses what a correct order never does.

    Parameters
    ----------
    count
        Number of slots; rows of residents that may be exchanged for slots count among them.
    contents
        ``(slot, layer, expert)`` of what is there at the start.
    """

    def __init__(self, count: int, contents: Iterable[tuple[int, int, int]] = ()) -> None:
        self._slots = [_Slot() for _ in range(count)]
        self.restore(contents)

    def __len__(self) -> int:
        return len(self._slots)

    def state(self, slot: int) -> SlotState:
        """State of one slot."""
        return self._slots[slot].state

    def holds(self, slot: int) -> tuple[int, int] | None:
        """``(layer, expert)`` that the slot holds or loads; ``None`` when that is not known."""
        return self._slots[slot].holds

    def begin_load(self, slot: int, layer: int, expert: int) -> None:
        """A copy starts to write: FREE, READY or UNKNOWN becomes LOADING."""
        entry = self._slots[slot]
        if entry.state not in (SlotState.FREE, SlotState.READY, SlotState.UNKNOWN):
            self._refuse(slot, f"a copy of layer {layer} expert {expert} started", "free, ready or unknown")
        entry.state, entry.holds = SlotState.LOADING, (layer, expert)

    def end_load(self, slot: int, layer: int, expert: int) -> None:
        """The copy has landed: LOADING becomes READY."""
        entry = self._slots[slot]
        if entry.state is not SlotState.LOADING or entry.holds != (layer, expert):
            self._refuse(slot, f"a copy of layer {layer} expert {expert} landed", "loading that expert")
        entry.state = SlotState.READY

    def begin_use(self, slot: int, layer: int, expert: int) -> None:
        """A computation starts to read: READY becomes IN_USE."""
        entry = self._slots[slot]
        if entry.state not in (SlotState.READY, SlotState.IN_USE) or entry.holds != (layer, expert):
            self._refuse(slot, f"layer {layer} expert {expert} started to compute", "ready with that expert")
        entry.state = SlotState.IN_USE
        entry.readers += 1

    def end_use(self, slot: int, layer: int, expert: int) -> None:
        """The computation is done: IN_USE becomes READY with its last reader."""
        entry = self._slots[slot]
        if entry.state is not SlotState.IN_USE or entry.holds != (layer, expert):
            self._refuse(slot, f"layer {layer} expert {expert} finished", "in use by that expert")
        entry.readers -= 1
        if not entry.readers:
            entry.state = SlotState.READY

    def spoil(self, slot: int) -> None:
        """After a fault nothing is believed of the slot: it becomes UNKNOWN."""
        if self._slots[slot].state is not SlotState.ZOMBIE:
            self._slots[slot] = _Slot(state=SlotState.UNKNOWN)

    def spoil_all(self) -> None:
        """After a fault nothing is believed of any slot that was ever filled."""
        for slot, entry in enumerate(self._slots):
            if entry.state is not SlotState.FREE:
                self.spoil(slot)

    def restore(self, contents: Iterable[tuple[int, int, int]]) -> None:
        """These are there, whatever was believed: what had no copy under way becomes READY."""
        for slot, layer, expert in contents:
            if self._slots[slot].state in (SlotState.ZOMBIE, SlotState.LOADING, SlotState.IN_USE):
                self._refuse(slot, f"layer {layer} expert {expert} was put there", "free, ready or unknown")
            self._slots[slot] = _Slot(state=SlotState.READY, holds=(layer, expert))

    def zombies(self) -> tuple[int, ...]:
        """Slots that someone who no longer answers may still write."""
        return tuple(slot for slot, entry in enumerate(self._slots) if entry.state is SlotState.ZOMBIE)

    def require_landed(self, slot: int, by: str) -> None:
        """Refuse what is handed on while it is still being written."""
        if self._slots[slot].state is SlotState.LOADING:
            self._refuse(slot, f"{by} hands it on", "landed")

    def bury(self, slot: int) -> None:
        """Someone who no longer answers may still write here: it becomes ZOMBIE."""
        self._slots[slot] = _Slot(state=SlotState.ZOMBIE)

    def revive(self, slot: int) -> None:
        """The late writer has ended after all: ZOMBIE becomes UNKNOWN."""
        if self._slots[slot].state is not SlotState.ZOMBIE:
            self._refuse(slot, "its late writer ended", "zombie")
        self._slots[slot] = _Slot(state=SlotState.UNKNOWN)

    def _refuse(self, slot: int, what: str, expected: str) -> None:
        entry = self._slots[slot]
        held = "" if entry.holds is None else f" with layer {entry.holds[0]} expert {entry.holds[1]}"
        raise SlotStateError(f"expected slot {slot} to be {expected} when {what}, got {entry.state}{held}")
