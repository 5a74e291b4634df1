"""Builds a program gate by gate, with exactly the waits it needs, and refuses what cannot be right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from prescope.formulation import CostModel
from prescope.runtime._contents import Contents, Held
from prescope.runtime._step_ops import CALLER, CPU, GPU, LINK, StepOps
from prescope.runtime.errors import PlanError
from prescope.runtime.program import Op, OpKind, Program, slot_place

_INPUT = ("input",)
_OUTPUTS = ("output.gpu", "output.cpu")
_OUTPUT = {GPU: _OUTPUTS[:1], CPU: _OUTPUTS[1:]}


class CopyRequest(NamedTuple):
    """One expert to bring into one slot."""

    layer: int
    expert: int
    slot: int


class ExpertWork(NamedTuple):
    """One expert to compute with its number of tokens."""

    expert: int
    tokens: int


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
    ) -> None:
        if len(residents) != costs.layers:
            raise PlanError(f"expected residents for {costs.layers} layers, got {len(residents)}")
        for layer, row in enumerate(residents):
            for expert in row:
                if not 0 <= expert < experts:
                    raise PlanError(
                        f"expected residents in [0, {experts - 1}], got {expert} in layer {layer}"
                    )
        self._costs, self._layers = costs, costs.layers
        self._experts, self._slots = experts, slots
        self._host_computes = host_computes
        self._allow_late = allow_late
        self._residents = tuple(frozenset(row) for row in residents)
        self._slot_name = tuple((slot_place(slot),) for slot in range(slots))
        self._contents = Contents(slots, carry=carry)
        self._handed_over = tuple(slot_place(slot) for slot in range(slots)) if carry else ()
        self._initial: tuple[tuple[int, int, int], ...] = ()
        self._step = StepOps()
        self._last_on_host: int | None = None
        self._gate_tokens = 0
        self._expected = "begin_step"

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
        self._step = StepOps()
        self._last_on_host = None
        self._gate_tokens = batch_tokens
        self._step.add(OpKind.FORK, CALLER, wave=-1, layer=-1, writes=self._handed_over)
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
            reads=_OUTPUTS,
            writes=_INPUT,
            predicted_ns=self._costs.dense_ns(layer, self._gate_tokens),
        )

    def wave(
        self,
        layer: int,
        *,
        gpu: Sequence[tuple[int, int]] = (),
        cpu: Sequence[tuple[int, int]] = (),
        copies: Sequence[tuple[int, int, int]] = (),
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
            that is still needed; an expert computed twice; host work where the host cannot compute.
        """
        self._require(f"wave {layer}")
        self._check_computes(layer, gpu, cpu)
        first = len(self._step.ops)
        pending = [CopyRequest(*copy) for copy in copies]
        needed = {expert for expert, _ in gpu if expert not in self._residents[layer]}
        brought: dict[int, int] = {}
        for index, copy in enumerate(pending):
            if copy.layer == layer and self.slot_of(layer, copy.expert) is None:
                brought.setdefault(copy.expert, index)
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
            self._last_on_host = self._compute(layer, expert, None, CPU, (dense,), duration).id
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
        handed_on = tuple(self._slot_name[slot][0] for slot in self._contents.filled() if carry)
        return self._step.add(
            OpKind.JOIN,
            CALLER,
            wave=self._layers,
            layer=self._layers,
            waits=(last[GPU], last[CPU], last[LINK] if carry else None),
            reads=_OUTPUTS + handed_on,
        )

    def abort_step(self) -> None:
        """Give the open step up; the next one assumes nothing about the slots."""
        self._contents.forget()
        self._initial = ()
        self._expected = "begin_step"

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
            slots=self._slots,
            ops=tuple(self._step.ops),
            initial=self._initial,
        )

    def slot_of(self, layer: int, expert: int) -> int | None:
        """Slot that holds or will hold an expert; ``None`` when no copy was issued."""
        return self._contents.slot_of(layer, expert)

    def contents(self) -> dict[int, tuple[int, int]]:
        """``(layer, expert)`` by slot, once all copies issued so far have landed."""
        return self._contents.owners()

    def _require(self, call: str) -> None:
        if call != self._expected:
            raise PlanError(f"expected the call {self._expected!r}, got {call!r}")

    def _check_computes(
        self, layer: int, gpu: Sequence[tuple[int, int]], cpu: Sequence[tuple[int, int]]
    ) -> None:
        seen: set[int] = set()
        for expert, _ in (*gpu, *cpu):
            if not 0 <= expert < self._experts:
                raise PlanError(
                    f"expected an expert in [0, {self._experts - 1}], got {expert} in layer {layer}"
                )
            if expert in seen:
                raise PlanError(f"expected each expert once in layer {layer}, got {expert} again")
            seen.add(expert)
        if cpu and not self._host_computes:
            raise PlanError(
                f"expected no work on the host, which cannot compute, got {len(cpu)} in layer {layer}"
            )

    def _copy(self, wave: int, copy: CopyRequest, needed: set[int] | tuple[()]) -> None:
        layer, expert, slot = copy
        where = f"the copy of layer {layer} expert {expert} to slot {slot} at gate {wave}"
        earliest = 0 if self._allow_late else max(0, wave)
        if not earliest <= layer < self._layers:
            raise PlanError(f"expected a layer in [{earliest}, {self._layers - 1}], got {where}")
        if not 0 <= expert < self._experts:
            raise PlanError(f"expected an expert in [0, {self._experts - 1}], got {where}")
        if not 0 <= slot < self._slots:
            raise PlanError(f"expected one of {self._slots} slots, got {where}")
        if expert in self._residents[layer]:
            raise PlanError(f"expected an expert that is not resident, got {where}")
        earlier = self.slot_of(layer, expert)
        if earlier is not None:
            rule = "an expert that no slot holds" if self._contents.carry else "one copy per expert and step"
            raise PlanError(f"expected {rule}, got {where} after one to slot {earlier}")
        held = self._contents[slot]
        if held is not None and (
            (held.layer > wave and held.copy is not None) or (held.layer == wave and held.expert in needed)
        ):
            raise PlanError(
                f"expected a slot that is free by then, got {where} while it holds layer {held.layer} "
                f"expert {held.expert}, not yet computed"
            )
        op = self._step.add(
            OpKind.COPY,
            LINK,
            wave=wave,
            layer=layer,
            expert=expert,
            slot=slot,
            # The fork (0) follows the last step's join, hence all that read the slots in earlier steps.
            waits=(0, None if held is None else held.reader),
            writes=self._slot_name[slot],
            size_bytes=self._costs.expert_bytes[layer],
            predicted_ns=self._costs.copy_ns(layer),
        )
        self._contents.fill(slot, Held(layer, expert, op.id))

    def _compute_on_gpu(self, layer: int, expert: int, tokens: int, dense: int | None) -> None:
        duration = self._costs.gpu_ns(layer, tokens)
        if expert in self._residents[layer]:
            self._compute(layer, expert, None, GPU, (dense,), duration)
            return
        slot = self.slot_of(layer, expert)
        held = None if slot is None else self._contents[slot]
        if held is None or (held.layer, held.expert) != (layer, expert):
            raise PlanError(
                f"expected a copy of layer {layer} expert {expert}, which runs on the device and is not "
                "resident, got none"
            )
        held.reader = self._compute(layer, expert, slot, GPU, (dense, held.copy), duration).id

    def _compute(
        self,
        layer: int,
        expert: int,
        slot: int | None,
        lane: int,
        waits: tuple[int | None, ...],
        predicted_ns: int,
    ) -> Op:
        return self._step.add(
            OpKind.COMPUTE,
            lane,
            wave=layer,
            layer=layer,
            expert=expert,
            slot=slot,
            waits=waits,
            reads=_INPUT if slot is None else _INPUT + self._slot_name[slot],
            writes=_OUTPUT[lane],
            predicted_ns=predicted_ns,
        )
