"""What the slots hold while a step is being built."""

from __future__ import annotations

from collections.abc import Iterable

from prescope.runtime.errors import PlanError


class Held:
    """What a slot holds: which expert in which row, the copy that brings it, the computation that read it.

    Where the slot goes on with the row of a resident, ``row_reader`` is the computation that read that. The
    copy is ``None`` once its step is over: what outlives a step is there before the next one starts.
    """

    __slots__ = ("copy", "expert", "layer", "reader", "row", "row_reader")

    def __init__(self, layer: int, expert: int, copy: int, row: int | None = None) -> None:
        self.layer = layer
        self.expert = expert
        self.row = row
        self.copy: int | None = copy
        self.reader: int | None = None
        self.row_reader: int | None = None


class Contents:
    """Contents of all slots and where every expert is.

    Parameters
    ----------
    slots
        Number of slots.
    carry
        Whether contents outlive the step. Only then is an expert gone for good once its slot is filled
        anew; otherwise it stays known as one that was copied in this step.
    """

    def __init__(self, slots: int, *, carry: bool) -> None:
        self.carry = carry
        self._held: list[Held | None] = [None] * slots
        self._slot_of: dict[tuple[int, int], int] = {}

    def __getitem__(self, slot: int) -> Held | None:
        return self._held[slot]

    def slot_of(self, layer: int, expert: int) -> int | None:
        """Slot that an expert was copied to."""
        return self._slot_of.get((layer, expert))

    def __len__(self) -> int:
        return len(self._held)

    def holding(self, layer: int, expert: int) -> Held | None:
        """What the slot of an expert holds, if it still is this expert."""
        slot = self._slot_of.get((layer, expert))
        held = None if slot is None else self._held[slot]
        return held if held is not None and (held.layer, held.expert) == (layer, expert) else None

    def needed(self, layer: int, expert: int) -> Held:
        """What the slot of an expert holds that the device is to compute.

        Raises
        ------
        PlanError
            When no slot holds the expert.
        """
        held = self.holding(layer, expert)
        if held is None:
            raise PlanError(
                f"expected a copy of layer {layer} expert {expert}, which runs on the device and is not "
                "resident, got none"
            )
        return held

    def check_new(self, layer: int, expert: int, where: str) -> None:
        """Refuse a copy, described by ``where``, of an expert that has been copied."""
        earlier = self.slot_of(layer, expert)
        if earlier is not None:
            rule = "an expert that no slot holds" if self.carry else "one copy per expert and step"
            raise PlanError(f"expected {rule}, got {where} after one to slot {earlier}")

    def fill(self, slot: int, held: Held) -> None:
        """A copy takes a slot over."""
        previous = self._held[slot]
        if self.carry and previous is not None:
            del self._slot_of[previous.layer, previous.expert]
        self._held[slot] = held
        self._slot_of[held.layer, held.expert] = slot

    def forget(self) -> None:
        """Believe nothing about any slot."""
        self._held = [None] * len(self._held)
        self._slot_of.clear()

    def begin_step(self) -> tuple[tuple[int, int, int], ...]:
        """A step begins; returns ``(slot, layer, expert)`` of what it finds in the slots."""
        if not self.carry:
            self.forget()
        for held in self._held:
            if held is not None:
                held.copy = held.reader = held.row_reader = None
        return tuple((slot, *owner) for slot, owner in self.owners().items())

    def filled(self) -> tuple[int, ...]:
        """Slots that copies of the present step have filled."""
        return tuple(
            slot for slot, held in enumerate(self._held) if held is not None and held.copy is not None
        )

    def lasting(self, layer: int, copies: Iterable[tuple[int, int, int]]) -> frozenset[int]:
        """Experts of a layer in slots once copies of ``(layer, expert, slot)`` have been made."""
        owners = self.owners() | {slot: (owner, expert) for owner, expert, slot in copies}
        return frozenset(expert for owner, expert in owners.values() if owner == layer)

    def owners(self) -> dict[int, tuple[int, int]]:
        """``(layer, expert)`` by slot."""
        return {slot: (held.layer, held.expert) for slot, held in enumerate(self._held) if held is not None}
