"""The static happens-before check of a program over two consecutive steps."""

from __future__ import annotations

from collections.abc import Iterator

from prescope.runtime.errors import PlanError
from prescope.runtime.program import Op, OpKind, Program, Stream

_SLOT = "slot:"


def verify(first: Program, second: Program | None = None) -> None:
    """Refuse a program whose own waits and stream orders do not make it correct, however long things take.

    Two steps in a row are checked, because a missing fork shows only in the second. What the host does
    between gates is not counted as an order.

    Parameters
    ----------
    first, second
        Consecutive steps; ``None`` repeats the first.

    Raises
    ------
    PlanError
        With the first hazard found: conflicting accesses without an order, a computation of weights that
        another copy put there last, an expert computed twice, or a slot out of range.
    """
    for hazard in hazards(first, first if second is None else second):
        raise PlanError(hazard)


def hazards(first: Program, second: Program) -> Iterator[str]:
    """All hazards of two consecutive steps, in words."""
    for step, program in enumerate((first, second)):
        yield from _shape_hazards(step, program)
    ops = (*first.ops, *second.ops)
    before = _ancestors(first, second)
    offset = len(first.ops)
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    for index, op in enumerate(ops):
        seen = before[index]
        for place in op.reads:
            last = writer.get(place)
            if last is not None and not seen >> last & 1:
                yield _unordered(place, ops[last], op, last, index, offset)
            if place.startswith(_SLOT):
                yield from _content_hazards(place, op, index, last, ops, offset)
            readers.setdefault(place, []).append(index)
        for place in op.writes:
            # A location's earlier accesses are ordered among themselves, so the newest ones suffice.
            last = writer.get(place)
            for earlier in readers.pop(place, []) + ([] if last is None else [last]):
                if earlier != index and not seen >> earlier & 1:
                    yield _unordered(place, ops[earlier], op, earlier, index, offset)
            writer[place] = index


def _ancestors(first: Program, second: Program) -> list[int]:
    """Per operation of both steps the set of those certainly done before it, as bits of an integer."""
    before: list[int] = []
    last: dict[Stream, int] = {}
    for base, program in ((0, first), (len(first.ops), second)):
        for op in program.ops:
            known = 0
            previous = last.get(op.stream)
            if previous is not None:
                known = before[previous] | 1 << previous
            for wait in op.waits:
                known |= before[base + wait] | 1 << base + wait
            last[op.stream] = len(before)
            before.append(known)
    return before


def _shape_hazards(step: int, program: Program) -> Iterator[str]:
    computed: set[tuple[int, int | None]] = set()
    for op in program.ops:
        if op.slot is not None and not 0 <= op.slot < program.slots:
            yield f"expected a slot among {program.slots}, got {op.describe()} in step {step}"
        if op.kind is OpKind.COMPUTE:
            if (op.layer, op.expert) in computed:
                yield f"expected each expert computed once, got {op.describe()} again in step {step}"
            computed.add((op.layer, op.expert))


def _content_hazards(
    place: str, op: Op, index: int, last: int | None, ops: tuple[Op, ...], offset: int
) -> Iterator[str]:
    wanted = (op.layer, op.expert)
    where = f"{op.describe()} in step {int(index >= offset)}"
    if last is None or (last >= offset) != (index >= offset):
        yield f"expected {place} to be filled in the step of {where}, got no copy"
    elif (ops[last].layer, ops[last].expert) != wanted:
        yield f"expected {place} to hold what {where} needs, got {ops[last].describe()}"


def _unordered(place: str, earlier: Op, later: Op, first: int, second: int, offset: int) -> str:
    return (
        f"expected an order on {place} between {earlier.describe()} in step {int(first >= offset)} and "
        f"{later.describe()} in step {int(second >= offset)}, got none"
    )
