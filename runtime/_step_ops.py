"""The growing list of one step's operations, which drops every wait that is already implied."""

from __future__ import annotations

from prescope.runtime.program import Op, OpKind, Stream, slot_place

# Small integers: an enum as the key of a dictionary costs more than all the rest of adding an operation.
STREAMS = tuple(Stream)
CALLER, LINK, GPU, CPU = (
    STREAMS.index(stream) for stream in (Stream.CALLER, Stream.LINK, Stream.GPU, Stream.CPU)
)

INPUT = ("input",)
OUTPUTS = ("output.gpu", "output.cpu")
_OUTPUT = {GPU: OUTPUTS[:1], CPU: OUTPUTS[1:]}

_Clock = tuple[int, int, int, int]


class StepOps:
    """Operations in issue order with a vector clock each.

    The clock of an operation counts, per stream, how many operations are certainly done once it is. A wait
    whose operation is counted already, by the stream's order or by another wait, adds nothing and is left
    out; so what remains is the least set of waits with the same order.
    """

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.last: list[int | None] = [None] * len(STREAMS)
        self._streams: list[int] = []
        self._clocks: list[_Clock] = []
        self._counts = [0] * len(STREAMS)

    def add(
        self,
        kind: OpKind,
        stream: int,
        *,
        wave: int,
        layer: int,
        waits: tuple[int | None, ...] = (),
        expert: int | None = None,
        slot: int | None = None,
        row: int | None = None,
        reads: tuple[str, ...] = (),
        writes: tuple[str, ...] = (),
        size_bytes: int = 0,
        predicted_ns: int = 0,
    ) -> Op:
        """Append an operation; ``waits`` may hold ``None`` and redundant ids, which are left out."""
        clocks = self._clocks
        previous = self.last[stream]
        known = [0, 0, 0, 0] if previous is None else list(clocks[previous])
        needed: tuple[int, ...] = ()
        candidates = [wait for wait in waits if wait is not None]
        if len(candidates) > 1:
            # A later operation may imply an earlier one but never the reverse: newest first.
            candidates.sort(reverse=True)
        for wait in candidates:
            clock = clocks[wait]
            at = self._streams[wait]
            if clock[at] > known[at]:
                needed = (wait, *needed)
                known = [a if a > b else b for a, b in zip(known, clock, strict=True)]
        self._counts[stream] += 1
        known[stream] = self._counts[stream]
        id = len(self.ops)
        op = Op(
            id=id,
            kind=kind,
            stream=STREAMS[stream],
            wave=wave,
            layer=layer,
            expert=expert,
            slot=slot,
            row=row,
            waits=needed,
            reads=reads,
            writes=writes,
            size_bytes=size_bytes,
            predicted_ns=predicted_ns,
        )
        self.ops.append(op)
        clocks.append((known[0], known[1], known[2], known[3]))
        self._streams.append(stream)
        self.last[stream] = id
        return op

    def compute(
        self,
        layer: int,
        expert: int,
        slot: int | None,
        lane: int,
        waits: tuple[int | None, ...],
        predicted_ns: int,
        row: int | None = None,
    ) -> Op:
        """Append the computation of an expert at its layer's gate, from a slot, a row, or where it rests."""
        place = slot if row is None else row
        return self.add(
            OpKind.COMPUTE,
            lane,
            wave=layer,
            layer=layer,
            expert=expert,
            slot=slot,
            row=row,
            waits=waits,
            reads=INPUT if place is None else (*INPUT, slot_place(place)),
            writes=_OUTPUT[lane],
            predicted_ns=predicted_ns,
        )

    def done_after(self, waits: tuple[int | None, ...], stream: int) -> int:
        """How many operations of a stream are certainly done once all of some operations are."""
        return max((self._clocks[wait][stream] for wait in waits if wait is not None), default=0)
