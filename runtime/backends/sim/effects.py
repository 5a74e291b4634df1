"""What simulated operations really do to memory, and the checks that see a wrong order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends._node import Node, NodeState, StepNodes
from prescope.runtime.backends._payload import run_payload
from prescope.runtime.backends.sim.machine import Machine
from prescope.runtime.errors import OrderError
from prescope.runtime.program import OpKind, Stream, slots_among
from prescope.runtime.slots import SlotTable
from prescope.runtime.store import HostStore

if TYPE_CHECKING:
    from torch import Tensor


class Effects:
    """Carries out operations at their virtual starts and ends.

    A copy lands piece by piece on NaN. A computation on the device reads its first part when it starts and
    the rest when it ends, so weights that change in between are noticed. The gate's output is valid from the
    end of a layer's dense work to the start of the next.

    Parameters
    ----------
    store, arena
        Host and device weights.
    chunks
        Pieces of a copy.
    """

    def __init__(self, store: HostStore, arena: DeviceArena, chunks: int) -> None:
        self.slots = SlotTable(arena.rows, arena.contents)
        self._store = store
        self._arena = arena
        self._chunks = chunks
        self._input: tuple[int, int] | None = None
        self._last_gate: tuple[int, int] | None = None
        self._first: dict[Node, Tensor] = {}

    def started(self, node: Node, step: StepNodes | None, machine: Machine) -> None:
        """The operation begins."""
        if node.op.kind is OpKind.COPY:
            self._begin_copy(node, machine)
        elif node.op.kind is OpKind.COMPUTE:
            self._begin_compute(node)
        elif node.op.kind is OpKind.PREDICT:
            # Tuples compare by step, then by layer: a gate of this step, of this layer or a later one.
            gate = self._last_gate or (-1, -1)
            if not (node.step, node.op.layer) <= gate < (node.step + 1, 0):
                raise OrderError(f"expected the gate of layer {node.op.layer} before {node.op.describe()}")
        elif node.op.kind in (OpKind.DENSE, OpKind.JOIN):
            self._input = None
            if node.op.kind is OpKind.JOIN and step is not None:
                _require_predictions(step, node)
            for slot in slots_among(node.op.reads):
                self.slots.require_landed(slot, node.op.describe())
            for compute in step.computes(node.op.layer - 1) if step else ():
                if compute.state is not NodeState.DONE:
                    raise OrderError(
                        f"expected {compute.op.describe()} to be done before {node.op.describe()} starts"
                    )

    def finished(self, node: Node) -> None:
        """The operation ends."""
        op = node.op
        if op.kind is OpKind.DENSE:
            self._input = self._last_gate = (node.step, op.layer)
        elif op.kind is OpKind.COPY and op.place is not None and op.expert is not None:
            self._land(node, self._chunks - 1)
            self.slots.end_load(op.place, op.layer, op.expert)
        elif op.kind is OpKind.COMPUTE:
            self._end_compute(node)
        elif op.kind is OpKind.PREDICT and node.work is not None:
            node.work({})

    def abandon(self) -> None:
        """The step was cut off: nothing is believed of any slot."""
        self.slots.spoil_all()
        self._first.clear()
        self._input = self._last_gate = None

    def _begin_copy(self, node: Node, machine: Machine) -> None:
        op = node.op
        if op.place is None or op.expert is None:
            raise OrderError(f"expected a slot and an expert, got {op.describe()}")
        self.slots.begin_load(op.place, op.layer, op.expert)
        self._arena.poison(op.place)
        length = node.end_ns - node.start_ns
        for chunk in range(self._chunks - 1):
            lands_ns = node.start_ns + length * (chunk + 1) // self._chunks
            machine.at(lands_ns, partial(self._land, node, chunk))

    def _land(self, node: Node, chunk: int) -> None:
        op = node.op
        if op.place is None or op.expert is None:
            return
        source = self._store.row(op.layer, op.expert)
        begin = source.numel() * chunk // self._chunks
        end = source.numel() * (chunk + 1) // self._chunks
        self._arena.slot_row(op.place, op.layer, op.expert)[begin:end] = source[begin:end]

    def _begin_compute(self, node: Node) -> None:
        self._require_input(node)
        op = node.op
        if op.stream is not Stream.GPU or op.expert is None:
            return
        if op.place is not None:
            self.slots.begin_use(op.place, op.layer, op.expert)
        row = self._arena.device_row(op.layer, op.expert, op.place)
        self._first[node] = row[: self._first_end(op.layer)].clone()

    def _end_compute(self, node: Node) -> None:
        self._require_input(node)
        op = node.op
        if op.expert is None:
            raise OrderError(f"expected an expert, got {op.describe()}")
        if op.stream is Stream.CPU:
            run_payload(self._store, op, self._store.row(op.layer, op.expert), node.work)
            return
        row = self._arena.device_row(op.layer, op.expert, op.place).clone()
        row[: self._first_end(op.layer)] = self._first.pop(node)
        run_payload(self._store, op, row, node.work)
        if op.place is not None:
            self.slots.end_use(op.place, op.layer, op.expert)

    def _first_end(self, layer: int) -> int:
        """Where the part read at the start ends: the row's first, or half of an undivided row."""
        elements = self._store.elements(layer)
        first = min(self._store.parts[layer], key=lambda part: part.offset)
        end = first.offset + first.size
        return end if end < elements else elements // 2

    def _require_input(self, node: Node) -> None:
        if self._input != (node.step, node.op.layer):
            raise OrderError(f"expected the gate output of layer {node.op.layer} for {node.op.describe()}")


def _require_predictions(step: StepNodes, join: Node) -> None:
    for node in step.nodes:
        if node.op.kind is OpKind.PREDICT and node.state is not NodeState.DONE:
            raise OrderError(f"expected {node.op.describe()} to be done before {join.op.describe()} starts")
