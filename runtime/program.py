"""The executable form of a plan: operations on streams, with the waits that order them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

import msgspec

from prescope.runtime.errors import PlanError

FORMAT = "prescope-program/2"
_SLOT = "slot:"


@lru_cache(maxsize=1 << 16)
def slot_place(slot: int) -> str:
    """Name of a slot among the locations that operations touch."""
    return f"{_SLOT}{slot}"


def slots_among(places: Iterable[str]) -> list[int]:
    """The slots among named locations, or the rows where slots and residents exchange them."""
    return [int(place.removeprefix(_SLOT)) for place in places if place.startswith(_SLOT)]


class OpKind(StrEnum):
    """What an operation does."""

    FORK = "fork"
    JOIN = "join"
    DENSE = "dense"
    COPY = "copy"
    COMPUTE = "compute"
    PREDICT = "predict"


class Stream(StrEnum):
    """What carries an operation out; operations of one stream run in the order they were issued."""

    CALLER = "caller"
    LINK = "link"
    GPU = "gpu"
    CPU = "cpu"


class Op(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One operation of one step.

    Parameters
    ----------
    id
        Position in the step; waits always name smaller ids of the same step.
    kind, stream
        What it does and what carries it out.
    wave
        Gate at which it is issued: a layer, or -1 for the start of the step.
    layer, expert
        Whose work it is; ``expert`` is ``None`` for everything but copies and computations, ``layer`` is -1
        for ``fork`` and the number of layers for ``join``. A prediction is that after its layer's gate.
    slot
        Device buffer written by a copy or read by a computation; ``None`` for residents and host work.
    row
        Memory row behind the slot or of the resident, where they exchange rows; ``None`` where they do not:
        then a slot is its own row, and those of residents never change.
    waits
        Ids of operations that must be done before this one starts, apart from its stream's order.
    reads, writes
        Names of the locations touched: ``slot:<n>`` with the row, if there is one, or else the slot,
        ``input`` (what the gate hands to the experts), ``output.gpu`` and ``output.cpu``. Host weights, and
        residents that stay in their rows, never change, so they are not named.
        Where contents outlive the step, its fork writes all slots (hands them over) and its join reads those
        that it filled (hands them on).
    size_bytes
        Modelled bytes of a copy, else 0.
    predicted_ns
        Modelled duration.
    """

    id: int
    kind: OpKind
    stream: Stream
    wave: int
    layer: int
    expert: int | None = None
    slot: int | None = None
    row: int | None = None
    waits: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    size_bytes: int = 0
    predicted_ns: int = 0

    @property
    def place(self) -> int | None:
        """The row where it is named, else the slot."""
        return self.slot if self.row is None else self.row

    def describe(self) -> str:
        """Short text for messages, such as ``copy 12 (layer 3, expert 7, slot 1)``."""
        details = [f"layer {self.layer}"]
        if self.expert is not None:
            details.append(f"expert {self.expert}")
        if self.slot is not None:
            details.append(f"slot {self.slot}")
        if self.row is not None:
            details.append(f"row {self.row}")
        return f"{self.kind} {self.id} ({', '.join(details)})"


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All operations of one step, in an order that respects every wait.

    Parameters
    ----------
    layers, experts, slots
        Shape of what it was built for; slots are all rows where slots and residents exchange them.
    ops
        Operations; the id of each is its position.
    initial
        ``(slot, layer, expert)`` of what must be in the slots when it starts, brought there by an earlier
        step; empty where every step starts from the residents alone.
    pending
        Slots into which a copy of an earlier step may still be writing when it starts. Named only where
        ``initial`` is.
    format
        Name and version of the format when written.
    """

    layers: int
    experts: int
    slots: int
    ops: tuple[Op, ...]
    initial: tuple[tuple[int, int, int], ...] = ()
    pending: tuple[int, ...] = ()
    format: str = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise PlanError(
                f"expected a program of format {FORMAT!r}, got {self.format!r}; compile the plan again"
            )
        for position, op in enumerate(self.ops):
            if op.id != position:
                raise PlanError(f"expected operation ids 0, 1, 2, ..., got {op.id} at position {position}")
            for wait in op.waits:
                if not 0 <= wait < position:
                    raise PlanError(
                        f"expected {op.describe()} to wait for earlier operations, got {wait}: a cycle"
                    )
        slots = [slot for slot, _, _ in self.initial]
        if len(set(slots)) != len(slots) or any(not 0 <= slot < self.slots for slot in slots):
            raise PlanError(f"expected distinct initial slots in [0, {self.slots - 1}], got {sorted(slots)}")
        if unclear := set(self.pending) & set(slots):
            raise PlanError(f"expected initial contents to have landed, got pending slots {sorted(unclear)}")

    def stream(self, stream: Stream) -> tuple[Op, ...]:
        """Operations of one stream in order."""
        return tuple(op for op in self.ops if op.stream is stream)

    def wave(self, wave: int) -> tuple[Op, ...]:
        """Copies and computations issued at one gate; -1 is the start of the step, with its fork."""
        return tuple(op for op in self.ops if op.wave == wave and op.kind not in (OpKind.DENSE, OpKind.JOIN))

    def final(self) -> dict[int, tuple[int, int]]:
        """``(layer, expert)`` by slot, as the program leaves them."""
        contents = {slot: (layer, expert) for slot, layer, expert in self.initial}
        for op in self.ops:
            if op.kind is OpKind.COPY and op.place is not None and op.expert is not None:
                contents[op.place] = (op.layer, op.expert)
        return contents

    def edges(self) -> tuple[tuple[int, int], ...]:
        """Explicit waits as pairs ``(waited for, waiting)``."""
        return tuple((wait, op.id) for op in self.ops for wait in op.waits)

    def without_edges(self, dropped: Iterable[tuple[int, int]]) -> Program:
        """The same program with some waits removed: a broken program, to test those that find it."""
        gone = set(dropped)
        ops = tuple(
            msgspec.structs.replace(op, waits=tuple(wait for wait in op.waits if (wait, op.id) not in gone))
            for op in self.ops
        )
        return msgspec.structs.replace(self, ops=ops)

    def to_json(self) -> bytes:
        """The program as JSON text."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes) -> Program:
        """Read a program.

        Raises
        ------
        PlanError
            When the text is not a program of this format or its waits make no order.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except PlanError:
            raise
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise PlanError(f"expected the JSON of a program, got {error}") from error
