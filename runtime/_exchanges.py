"""Exchanges of rows between slots and residents while a step is being built."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from prescope.runtime._contents import Contents
from prescope.runtime._step_ops import CALLER, LINK, StepOps
from prescope.runtime.errors import PlanError
from prescope.runtime.places import Places
from prescope.runtime.program import OpKind, slot_place


class Exchanges:
    """Who is resident, which rows an earlier step may still be writing, and what the next one can rely on.

    Parameters
    ----------
    residents
        Per layer, the residents at first.
    contents
        What the slots hold.
    """

    def __init__(self, residents: Sequence[Sequence[int]], contents: Contents) -> None:
        self.places = Places(residents, len(contents))
        self._contents = contents
        self._names = tuple(slot_place(row) for row in range(self.places.rows))
        self.initial = tuple(self.places.contents())
        self.changed: set[int] = set()
        self.pending: tuple[int, ...] = ()
        self.landing: list[int] = []
        self._victims: dict[int, int] = {}
        self._at_work: Collection[int] = ()
        self._readers: dict[int, int] = {}

    def begin_step(self, last: StepOps) -> tuple[str, ...]:
        """A step begins after ``last``; returns what its fork takes over."""
        self.places.begin_step()
        if self.changed:
            self.initial = tuple(self.places.contents())
            self.changed.clear()
        self.pending = self._left_open(last)
        self.landing = []
        if not self.pending:
            return self._names
        under_way = set(self.pending)
        return tuple(name for row, name in enumerate(self._names) if row not in under_way)

    def announce(
        self,
        layer: int,
        exchanges: Sequence[tuple[int, int]],
        brought: Collection[int],
        residents: Collection[int],
        at_work: Collection[int],
    ) -> None:
        """The exchanges of a gate; each is made when its slot is taken again, or by `make_all`.

        Parameters
        ----------
        layer
            Layer of the gate.
        exchanges
            ``(expert, victim)``.
        brought
            Experts of the layer that are copied at this gate.
        residents
            Those of the layer.
        at_work
            Experts that the device computes at this gate.

        Raises
        ------
        PlanError
            When one cannot be made.
        """
        for expert, victim in exchanges:
            where = f"expert {expert} for {victim} in layer {layer}"
            if expert not in brought and self._contents.holding(layer, expert) is None:
                raise PlanError(f"expected an expert in a slot to become resident, got {where}")
            if victim not in residents:
                raise PlanError(f"expected a resident to give its row, got {where}")
        self._victims, self._at_work = dict(exchanges), at_work
        self._readers.clear()
        if len({*self._victims, *self._victims.values()}) < 2 * len(exchanges):
            raise PlanError(f"expected each expert and each resident once, got {tuple(exchanges)}")

    def computed(self, expert: int, op: int) -> None:
        """A resident of the gate's layer is computed by an operation."""
        self._readers[expert] = op

    def make_all(self, layer: int) -> None:
        """The gate's copies and computations have been issued: make what is left of its exchanges."""
        for expert in tuple(self._victims):
            slot = self._contents.slot_of(layer, expert)
            if slot is not None:
                self._give(slot)

    def row_for_copy(self, gate: int, slot: int) -> int:
        """The row that a copy issued at a gate writes when it takes a slot."""
        held = self._contents[slot]
        if held is not None and held.layer == gate and held.expert in self._victims:
            victim = self._victims[held.expert]
            if victim in self._at_work:
                # The link would have to wait for it, which nobody has planned.
                raise PlanError(
                    "expected a slot that no copy of the gate takes again for the row of a resident at work, "
                    f"got slot {slot} for that of layer {gate} expert {victim}"
                )
            self._give(slot)
        return self.places.slot_row(slot)

    def handed_on(self, step: StepOps, waits: Iterable[int | None]) -> tuple[str, ...]:
        """What a join with these waits hands on: rows whose copies are certainly done then."""
        done = step.done_after((*waits, step.last[CALLER]), LINK)
        filled = _filled(step)
        still_open = set(filled[done:])
        rows = dict.fromkeys(row for row in filled[:done] if row not in still_open)
        return tuple(self._names[row] for row in rows)

    def recover(self, step: StepOps, lost: Collection[int]) -> tuple[tuple[int, int, int], ...]:
        """A step failed: see `ProgramBuilder.recover`."""
        self._victims.clear()
        self.pending = ()
        again = tuple(self.places.recover(set(_filled(step)), lost))
        self.initial = tuple(self.places.contents())
        self.changed.clear()
        return again

    def _give(self, slot: int) -> None:
        """What is in the slot keeps its row; from here on the slot has the victim's."""
        held = self._contents[slot]
        if held is None:
            raise PlanError(f"expected an expert in slot {slot}, got none")
        if held.reader is None and held.copy is not None:
            # Nothing else would wait for it before the next step.
            self.landing.append(held.copy)
        victim = self._victims.pop(held.expert)
        held.row_reader = self._readers.get(victim)
        self.changed.add(held.layer)
        self.places.exchange(slot, held.layer, held.expert, victim)

    def _left_open(self, last: StepOps) -> tuple[int, ...]:
        if not last.ops or last.ops[-1].kind is not OpKind.JOIN:
            return ()
        done = last.done_after((last.ops[-1].id,), LINK)
        # Copies follow each other: where one of the last step is done, all of earlier steps are.
        earlier = () if done else self.pending
        return tuple(dict.fromkeys((*earlier, *_filled(last)[done:])))


def _filled(step: StepOps) -> list[int]:
    """Rows of a step's copies, in link order."""
    return [op.place for op in step.ops if op.kind is OpKind.COPY and op.place is not None]
