"""The growing list of one step's operations, which drops every wait that is already implied."""

from __future__ import annotations

from prescope.runtime.program import Op, OpKind, Stream

_INDEX = {stream: index for index, stream in enumerate(Stream)}
_Clock = tuple[int, ...]
_NOTHING: _Clock = (0,) * len(_INDEX)


class StepOps:
    """Operations in issue order with a vector clock each.

    The clock of an operation counts, per stream, how many operations are certainly done once it is. A wait
    whose operation is counted already, by the stream's order or by another wait, adds nothing and is left
    out; so what remains is the least set of waits with the same order.
    """

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self._clocks: list[_Clock] = []
        self._last: list[int | None] = [None] * len(_INDEX)
        self._counts = [0] * len(_INDEX)

    def last(self, stream: Stream) -> int | None:
        """Id of the newest operation of a stream; ``None`` before the first."""
        return self._last[_INDEX[stream]]

    def add(
        self,
        kind: OpKind,
        stream: Stream,
        *,
        wave: int,
        layer: int,
        waits: tuple[int | None, ...] = (),
        expert: int | None = None,
        slot: int | None = None,
        reads: tuple[str, ...] = (),
        writes: tuple[str, ...] = (),
        size_bytes: int = 0,
        predicted_ns: int = 0,
    ) -> Op:
        """Append an operation; ``waits`` may hold ``None`` and redundant ids, which are left out."""
        index = _INDEX[stream]
        previous = self._last[index]
        clock = _NOTHING if previous is None else self._clocks[previous]
        needed: list[int] = []
        # A later operation may imply an earlier one but never the reverse: newest first.
        for wait in sorted({wait for wait in waits if wait is not None}, reverse=True):
            at = _INDEX[self.ops[wait].stream]
            known = self._clocks[wait]
            if known[at] > clock[at]:
                needed.append(wait)
                clock = tuple(map(max, clock, known))
        self._counts[index] += 1
        clock = (*clock[:index], self._counts[index], *clock[index + 1 :])
        op = Op(
            id=len(self.ops),
            kind=kind,
            stream=stream,
            wave=wave,
            layer=layer,
            expert=expert,
            slot=slot,
            waits=tuple(reversed(needed)),
            reads=reads,
            writes=writes,
            size_bytes=size_bytes,
            predicted_ns=predicted_ns,
        )
        self.ops.append(op)
        self._clocks.append(clock)
        self._last[index] = op.id
        return op
