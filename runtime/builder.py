"""Builds a program gate by gate, with exactly the waits it needs, and refuses what cannot be right."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from prescope.formulation import CostModel
from prescope.runtime._contents import Contents, Held
from prescope.runtime._exchanges import Exchanges
from prescope.runtime._step_ops import CALLER, CPU, GPU, INPUT, LINK, OUTPUTS, StepOps
from prescope.runtime.errors import PlanError
from prescope.runtime.program import Op, OpKind, Program, slot_place
from prescope.runtime.requests import (
    CopyRequest,
    check_computes,
    check_copy,
    check_free,
    check_residents,
    describe_copy,
)


class ProgramBuilder:
    """Adds the operations of one step after another; every step is correct after any earlier one.

    Call ``begin_step``, then ``dense`` and ``wave`` for every layer in order, then ``end_step``. Checks cost
    O(operations). After a `PlanError` the step is unusable: call ``abort_step`` and begin anew.

    Parameters
    ----------
    costs
        Modelled durations and bytes.
    experts
        Experts per layer.
    slots
        Device buffers for copied experts.
    residents
        Per layer, the experts whose weights are always on the device.
    host_computes
        Whether experts may run on the host.
    allow_late
        Accept copies for layers whose gate has passed: a saved plan may hold such useless ones.
    carry
        Slots keep their contents across steps: a pool of rows. A step then ends with its last copy, so that
        all contents are there when the next one starts.
    exchange
        Residents may give their rows to experts that were brought into slots (`wave`); all rows must be of
        one size then.
    """

    def __init__(
        self,
        *,
        costs: CostModel,
        experts: int,
        slots: int,
        residents: Sequence[Sequence[int]],
        host_computes: bool = True,
        allow_late: bool = False,
        carry: bool = False,
        exchange: bool = False,
    ) -> None:
        if carry and exchange:
            raise PlanError("expected a pool of rows or residents that exchange rows, got both")
        check_residents(residents, layers=costs.layers, experts=experts)
        self._costs, self._layers = costs, costs.layers
        self._experts, self._slots = experts, slots
        self._host_computes, self._allow_late = host_computes, allow_late
        self._residents = tuple(frozenset(row) for row in residents)
        self._slot_name = tuple((slot_place(slot),) for slot in range(slots))
        self._contents = Contents(slots, carry=carry)
        self._exchanges = Exchanges(residents, self._contents) if exchange else None
        self._handed_over = tuple(name for (name,) in self._slot_name) if carry else ()
        self._initial: tuple[tuple[int, int, int], ...] = ()
        self._step = StepOps()
        self._last_on_host: int | None = None
        self._gate_tokens, self._expected = 0, "begin_step"

    def begin_step(self, copies: Sequence[tuple[int, int, int]] = (), *, batch_tokens: int) -> tuple[Op, ...]:
        """Start a step: its fork and the copies that need not wait for any gate.

        Parameters
        ----------
        copies
            Copies in link order.
        batch_tokens
            Tokens that the dense part of every layer processes.

        Raises
        ------
        PlanError
            When a step is open, or a copy cannot be right.
        """
        self._require("begin_step")
        self._initial = self._contents.begin_step()
        taken_over = self._handed_over
        if self._exchanges is not None:
            taken_over = self._exchanges.begin_step(self._step)
            self._initial = self._exchanges.initial
        self._step = StepOps()
        self._last_on_host = None
        self._gate_tokens = batch_tokens
        self._step.add(OpKind.FORK, CALLER, wave=-1, layer=-1, writes=taken_over)
        for copy in copies:
            self._copy(-1, CopyRequest(*copy), ())
        self._expected = "dense 0"
        return tuple(self._step.ops)

    def dense(self, layer: int) -> Op:
        """The work of a layer before its gate, on the caller's stream.

        Raises
        ------
        PlanError
            When this is not the next layer.
        """
        self._require(f"dense {layer}")
        self._expected = f"wave {layer}"
        return self._step.add(
            OpKind.DENSE,
            CALLER,
            wave=layer,
            layer=layer,
            # Not for the host's predictions: they run beside the layers.
            waits=(self._step.last[GPU], self._last_on_host),
            reads=OUTPUTS,
            writes=INPUT,
            predicted_ns=self._costs.dense_ns(layer, self._gate_tokens),
        )

    def wave(
        self,
        layer: int,
        *,
        gpu: Sequence[tuple[int, int]] = (),
        cpu: Sequence[tuple[int, int]] = (),
        copies: Sequence[tuple[int, int, int]] = (),
        exchanges: Sequence[tuple[int, int]] = (),
        prediction_ns: int = 0,
    ) -> tuple[Op, ...]:
        """What is decided at the gate of a layer.

        Parameters
        ----------
        gpu, cpu
            ``(expert, tokens)`` of the computations on the device and on the host, in order.
        copies
            ``(layer, expert, slot)`` of the copies to be made from now on, in link order, for this layer and
            later ones. A slot may be taken over once its expert is computed or its layer's gate has passed
            without using it.
        exchanges
            ``(expert, victim)``: an expert of this layer that is in a slot by now, or is brought into one at
            this gate, takes the place of a resident from the next step on. The slot goes on with the row of
            that resident; where the device computes it at this gate, no copy of the gate may take the slot
            again (`lasting`).
        prediction_ns
            Length of the prediction that the host makes after its experts; 0 for none.

        Returns
        -------
        tuple[Op, ...]
            The operations in an order that respects all waits.

        Raises
        ------
        PlanError
            Unknown layer, expert or slot; a copy that is missing, repeated, of a resident or too late; a slot
            that is still needed; an expert computed twice; host work where the host cannot compute; an
            exchange of what is not there.
        """
        self._require(f"wave {layer}")
        check_computes(layer, gpu, cpu, experts=self._experts, host_computes=self._host_computes)
        first = len(self._step.ops)
        pending = [CopyRequest(*copy) for copy in copies]
        needed = {expert for expert, _ in gpu if expert not in self._residents[layer]}
        brought: dict[int, int] = {}
        for index, copy in enumerate(pending):
            if copy.layer == layer and self.slot_of(layer, copy.expert) is None:
                brought.setdefault(copy.expert, index)
        if self._exchanges is not None:
            self._exchanges.announce(layer, exchanges, brought, self._residents[layer], dict(gpu))
        elif exchanges:
            raise PlanError(f"expected no exchange of rows, which was not asked for, got {exchanges}")
        issued = 0
        dense = self._step.last[CALLER]
        for expert, tokens in gpu:
            # Copies as late as the computations allow: a slot freed by one is then known to be free.
            while expert in brought and issued <= brought[expert]:
                self._copy(layer, pending[issued], needed)
                issued += 1
            self._compute_on_gpu(layer, expert, tokens, dense)
            needed.discard(expert)
        for copy in pending[issued:]:
            self._copy(layer, copy, needed)
        for expert, tokens in cpu:
            duration = self._costs.cpu_ns(layer, tokens)
            self._last_on_host = self._step.compute(layer, expert, None, CPU, (dense,), duration).id
        if self._exchanges is not None:
            self._exchanges.make_all(layer)
        if prediction_ns:
            self._step.add(
                OpKind.PREDICT, CPU, wave=layer, layer=layer, waits=(dense,), predicted_ns=prediction_ns
            )
        self._expected = f"dense {layer + 1}" if layer + 1 < self._layers else "end_step"
        return tuple(self._step.ops[first:])

    def end_step(self) -> Op:
        """Close the step, which waits for device and host, and for copies only where contents outlive it.

        Raises
        ------
        PlanError
            When a layer is missing.
        """
        self._require("end_step")
        self._expected = "begin_step"
        last, carry = self._step.last, self._contents.carry
        waits = [last[GPU], last[CPU], last[LINK] if carry else None]
        handed_on = tuple(self._handed_over[slot] for slot in self._contents.filled() if carry)
        if self._exchanges is not None:
            if self._exchanges.changed:
                self._residents = tuple(map(frozenset, self._exchanges.places.residents()))
            waits += self._exchanges.landing
            handed_on = self._exchanges.handed_on(self._step, waits)
        return self._step.add(
            OpKind.JOIN,
            CALLER,
            wave=self._layers,
            layer=self._layers,
            waits=tuple(waits),
            reads=OUTPUTS + handed_on,
        )

    def abort_step(self) -> None:
        """Give the open step up; the next one assumes nothing about the slots."""
        self._contents.forget()
        self._initial = ()
        self._expected = "begin_step"

    def settle(self) -> None:
        """The step that was ended is over for good: `recover` keeps what it exchanged."""
        if self._exchanges is not None:
            self._exchanges.places.begin_step()

    def recover(self, lost: Collection[int]) -> tuple[tuple[int, int, int], ...]:
        """After `abort_step`, where rows are exchanged: have the residents of the step's start again.

        Parameters
        ----------
        lost
            Rows that may still be written.

        Returns
        -------
        tuple[tuple[int, int, int], ...]
            ``(row, layer, expert)`` of those that must be read into their rows again.
        """
        if self._exchanges is None:
            return ()
        again = self._exchanges.recover(self._step, lost)
        self._residents = tuple(map(frozenset, self._exchanges.places.residents()))
        self._step = StepOps()
        return again

    def residents(self) -> tuple[tuple[int, ...], ...]:
        """Who is resident when the next step begins, per layer, ascending."""
        return tuple(tuple(sorted(row)) for row in self._residents)

    def resident_rows(self) -> tuple[tuple[int, int, int], ...]:
        """``(row, layer, expert)`` of all residents; empty where nobody exchanges rows."""
        return () if self._exchanges is None else tuple(self._exchanges.places.contents())

    def program(self) -> Program:
        """The step that was ended last.

        Raises
        ------
        PlanError
            When a step is still open or none was built.
        """
        self._require("begin_step")
        return Program(
            layers=self._layers,
            experts=self._experts,
            slots=self._slots if self._exchanges is None else self._exchanges.places.rows,
            ops=tuple(self._step.ops),
            initial=self._initial,
            pending=() if self._exchanges is None else self._exchanges.pending,
        )

    def slot_of(self, layer: int, expert: int) -> int | None:
        """Slot that holds or will hold an expert; ``None`` when no copy was issued."""
        return self._contents.slot_of(layer, expert)

    def lasting(self, layer: int, copies: Sequence[tuple[int, int, int]]) -> frozenset[int]:
        """Experts of the next wave's layer that are in slots once its copies have been made."""
        return self._contents.lasting(layer, copies)

    def contents(self) -> dict[int, tuple[int, int]]:
        """``(layer, expert)`` by slot, once all copies issued so far have landed."""
        return self._contents.owners()

    def _require(self, call: str) -> None:
        if call != self._expected:
            raise PlanError(f"expected the call {self._expected!r}, got {call!r}")

    def _copy(self, wave: int, copy: CopyRequest, needed: set[int] | tuple[()]) -> None:
        layer, expert, slot = copy
        where = describe_copy(wave, copy)
        check_copy(
            copy,
            where,
            earliest=0 if self._allow_late else max(0, wave),
            shape=(self._layers, self._experts, self._slots),
        )
        if expert in self._residents[layer]:
            raise PlanError(f"expected an expert that is not resident, got {where}")
        self._contents.check_new(layer, expert, where)
        held = self._contents[slot]
        check_free(held, wave, needed, where)
        row = None if self._exchanges is None else self._exchanges.row_for_copy(wave, slot)
        op = self._step.add(
            OpKind.COPY,
            LINK,
            wave=wave,
            layer=layer,
            expert=expert,
            slot=slot,
            row=row,
            # The fork (0) follows all that read the slots in earlier steps.
            waits=(0,) if held is None else (0, held.reader, held.row_reader),
            writes=self._slot_name[slot] if row is None else (slot_place(row),),
            size_bytes=self._costs.expert_bytes[layer],
            predicted_ns=self._costs.copy_ns(layer),
        )
        self._contents.fill(slot, Held(layer, expert, op.id, row))

    def _compute_on_gpu(self, layer: int, expert: int, tokens: int, dense: int | None) -> None:
        duration = self._costs.gpu_ns(layer, tokens)
        if expert in self._residents[layer]:
            if self._exchanges is None:
                self._step.compute(layer, expert, None, GPU, (dense,), duration)
            else:
                row = self._exchanges.places.resident_row(layer, expert)
                op = self._step.compute(layer, expert, None, GPU, (dense,), duration, row)
                self._exchanges.computed(expert, op.id)
            return
        held = self._contents.needed(layer, expert)
        slot = self.slot_of(layer, expert)
        held.reader = self._step.compute(layer, expert, slot, GPU, (dense, held.copy), duration, held.row).id
