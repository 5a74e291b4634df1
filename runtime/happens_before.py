"""The static happens-before check of a program, over two consecutive steps where it can follow itself."""

from __future__ import annotations

from collections.abc import Iterator

from prescope.runtime.errors import PlanError
from prescope.runtime.program import Op, OpKind, Program, Stream, slot_place, slots_among


def verify(first: Program, second: Program | None = None) -> None:
    """Refuse a program whose own waits and stream orders do not make it correct, however long things take.

    Two steps in a row are checked, because a missing fork shows only in the second. What the host does
    between gates is not counted as an order.

    A program that finds contents in the slots is checked as if they had been written before everything.
    Its fork takes over all slots but the pending ones, and its join hands on what it filled, so the step
    alone shows a missing wait on either; whatever step comes before or after only has to leave, or to expect,
    the right contents. What the join does not hand on may still be under way: the next step must expect
    just that.

    Parameters
    ----------
    first, second
        Consecutive steps. ``None`` repeats the first where it finds in the slots what it leaves there
        itself, and otherwise checks the first alone.

    Raises
    ------
    PlanError
        With the first hazard found: conflicting accesses without an order, a computation of weights that
        another copy put there last, an expert computed twice, a slot out of range, or contents that the
        second step expects and the first does not leave.
    """
    for hazard in hazards(first, second):
        raise PlanError(hazard)


def hazards(first: Program, second: Program | None = None) -> Iterator[str]:
    """All hazards of two consecutive steps, or of a step that `verify` checks alone, in words."""
    if second is None and not any(_missing_contents(first, first)):
        second = first
    steps = (first,) if second is None else (first, second)
    for step, program in enumerate(steps):
        yield from _shape_hazards(step, program)
    for earlier, later in zip(steps, steps[1:], strict=False):
        yield from _missing_contents(earlier, later)
    ops = tuple(op for program in steps for op in program.ops)
    before = _ancestors(steps)
    offset = len(first.ops)
    found = [
        {slot_place(slot): (layer, expert) for slot, layer, expert in program.initial} for program in steps
    ]
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    yield from _prediction_hazards(ops, before, offset)
    for index, op in enumerate(ops):
        seen = before[index]
        for place in op.reads:
            last = writer.get(place)
            if last is not None and not seen >> last & 1:
                yield _unordered(place, ops[last], op, last, index, offset)
            if op.kind is OpKind.COMPUTE and op.place is not None and place == slot_place(op.place):
                step = int(index >= offset)
                yield from _content_hazards(place, op, step, last, ops, offset, found[step])
            readers.setdefault(place, []).append(index)
        for place in op.writes:
            # A location's earlier accesses are ordered among themselves, so the newest ones suffice.
            last = writer.get(place)
            for earlier_access in readers.pop(place, []) + ([] if last is None else [last]):
                if earlier_access != index and not seen >> earlier_access & 1:
                    yield _unordered(place, ops[earlier_access], op, earlier_access, index, offset)
            writer[place] = index


def _ancestors(steps: tuple[Program, ...]) -> list[int]:
    """Per operation of all steps the set of those certainly done before it, as bits of an integer."""
    before: list[int] = []
    last: dict[Stream, int] = {}
    for program in steps:
        base = len(before)
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


def _prediction_hazards(ops: tuple[Op, ...], before: list[int], offset: int) -> Iterator[str]:
    """A prediction comes after its layer's gate and before its step's end.

    It keeps what the gate handed to it, so there is no location that could be overwritten meanwhile.
    """
    gate, open_predictions = -1, 0
    for index, op in enumerate(ops):
        where = f"{op.describe()} in step {int(index >= offset)}"
        if op.kind is OpKind.DENSE:
            gate = index
        elif op.kind is OpKind.PREDICT:
            open_predictions |= 1 << index
            if gate < 0 or ops[gate].layer != op.layer or not before[index] >> gate & 1:
                yield f"expected {where} after its layer's gate, got no order"
        elif op.kind is OpKind.JOIN:
            if open_predictions & ~before[index]:
                yield f"expected {where} after the step's predictions, got no order"
            open_predictions = 0


def _missing_contents(first: Program, second: Program) -> Iterator[str]:
    left = first.final() if second.initial else {}
    for slot, layer, expert in second.initial:
        if left.get(slot) != (layer, expert):
            got = "nothing" if slot not in left else "layer {} expert {}".format(*left[slot])
            yield (
                f"expected the step before to leave layer {layer} expert {expert} in slot {slot}, got {got}"
            )
    left_open = _open_slots(first)
    if early := left_open and left_open & _named(second, OpKind.FORK):
        yield f"expected slots {sorted(early)}, which the step before left open, to be pending, got not"


def _open_slots(program: Program) -> set[int]:
    """Slots to which a copy may still be under way when the step is over: all that nobody hands on."""
    left_open = _filled(program)
    if program.pending:
        done = _ancestors((program,))[-1]
        # Copies follow each other: where one of this step is done, all of earlier steps are.
        if not any(op.kind is OpKind.COPY and done >> op.id & 1 for op in program.ops):
            left_open |= set(program.pending)
    return left_open - _named(program, OpKind.JOIN)


def _shape_hazards(step: int, program: Program) -> Iterator[str]:
    computed: set[tuple[int, int | None]] = set()
    for op in program.ops:
        for slot in (op.slot, op.row):
            if slot is not None and not 0 <= slot < program.slots:
                yield f"expected a slot among {program.slots}, got {op.describe()} in step {step}"
        if op.kind is OpKind.COMPUTE:
            if (op.layer, op.expert) in computed:
                yield f"expected each expert computed once, got {op.describe()} again in step {step}"
            computed.add((op.layer, op.expert))
    if program.initial:
        closed = set(range(program.slots)) - set(program.pending)
        yield from _handing_hazards(step, program, OpKind.FORK, closed)
        if all(op.row is None for op in program.ops):
            # A pool of rows: its step ends with its last copy, so that none is under way afterwards.
            yield from _handing_hazards(step, program, OpKind.JOIN, _filled(program))


def _handing_hazards(step: int, program: Program, kind: OpKind, expected: set[int]) -> Iterator[str]:
    names = {place for op in program.ops if op.kind is kind for place in (*op.reads, *op.writes)}
    if not all(slot_place(slot) in names for slot in expected):
        named = sorted(slots_among(names))
        yield f"expected the {kind} of step {step} to name slots {sorted(expected)}, got {named}"


def _filled(program: Program) -> set[int]:
    return {op.place for op in program.ops if op.kind is OpKind.COPY and op.place is not None}


def _named(program: Program, kind: OpKind) -> set[int]:
    return {slot for op in program.ops if op.kind is kind for slot in slots_among((*op.reads, *op.writes))}


def _content_hazards(
    place: str,
    op: Op,
    step: int,
    last: int | None,
    ops: tuple[Op, ...],
    offset: int,
    initial: dict[str, tuple[int, int]],
) -> Iterator[str]:
    wanted = (op.layer, op.expert)
    where = f"{op.describe()} in step {step}"
    copied = last is not None and (last >= offset) == bool(step) and ops[last].kind is OpKind.COPY
    if copied and last is not None:
        if (ops[last].layer, ops[last].expert) != wanted:
            yield f"expected {place} to hold what {where} needs, got {ops[last].describe()}"
    elif place not in initial:
        yield f"expected {place} to be filled in the step of {where}, got no copy"
    elif initial[place] != wanted:
        yield (
            f"expected {place} to hold what {where} needs, got layer {initial[place][0]} expert "
            f"{initial[place][1]} from before"
        )


def _unordered(place: str, earlier: Op, later: Op, first: int, second: int, offset: int) -> str:
    return (
        f"expected an order on {place} between {earlier.describe()} in step {int(first >= offset)} and "
        f"{later.describe()} in step {int(second >= offset)}, got none"
    )
