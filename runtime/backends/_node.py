"""One operation on its way through a backend."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from prescope.runtime.backends.base import Ticket, Work
from prescope.runtime.errors import PlanError
from prescope.runtime.program import Op, OpKind


class NodeState(StrEnum):
    """Where an operation is; the last three are final, and every operation reaches exactly one of them."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Node:
    """An operation with its state; times are the backend's own clock.

    Parameters
    ----------
    op
        What to do.
    step
        Number of its step.
    waits
        What must be done first, apart from the stream's order.
    work
        What a computation does, ``None`` for the built-in check of its weights.
    """

    __slots__ = (
        "end_ns",
        "moved_bytes",
        "not_before_ns",
        "op",
        "overran",
        "start_ns",
        "state",
        "step",
        "submitted_ns",
        "waits",
        "work",
    )

    def __init__(self, op: Op, step: int, waits: tuple[Node, ...], work: Work | None) -> None:
        self.op = op
        self.step = step
        self.waits = waits
        self.work = work
        self.state = NodeState.QUEUED
        self.not_before_ns = 0
        self.submitted_ns = 0
        self.start_ns = 0
        self.end_ns = 0
        self.overran = False
        self.moved_bytes: int | None = None  # by a copy, where that is not one row

    def release(self) -> None:
        """It is over: hold on to nothing but its times."""
        self.waits = ()
        self.work = None

    @property
    def ready(self) -> bool:
        """Whether all waits are over."""
        return all(wait.state is NodeState.DONE for wait in self.waits)

    @property
    def final(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state not in (NodeState.QUEUED, NodeState.RUNNING)


class StepNodes:
    """All operations of one step.

    Parameters
    ----------
    number
        Which step.
    origin_ns
        Its beginning on the backend's clock.
    link_free_ns
        None of its copies starts before that time.
    """

    def __init__(self, number: int, origin_ns: int, link_free_ns: int = 0) -> None:
        self.number = number
        self.origin_ns = origin_ns
        self.link_free_ns = link_free_ns
        self.nodes: list[Node] = []
        self._computes: dict[int, list[Node]] = {}

    def add(self, op: Op, work: Work | None = None) -> Node:
        """Take an operation in; operations must come in the order of their ids."""
        if op.id != len(self.nodes):
            raise PlanError(f"expected operation {len(self.nodes)} of the step, got {op.describe()}")
        node = Node(op, self.number, tuple(self.nodes[wait] for wait in op.waits), work)
        if op.kind is OpKind.COPY:
            node.not_before_ns = self.link_free_ns
        self.nodes.append(node)
        if op.kind is OpKind.COMPUTE:
            self._computes.setdefault(op.layer, []).append(node)
        return node

    def ticket(self, added: list[Node], wave: int) -> Ticket:
        """What to wait for after these operations were taken in."""
        computes = tuple(node.op.id for node in added if node.op.kind is OpKind.COMPUTE)
        return Ticket(step=self.number, wave=wave, computes=computes)

    def computes(self, layer: int) -> list[Node]:
        """Computations of a layer that were taken in so far."""
        return self._computes.get(layer, [])

    def outcomes(self) -> dict[str, int]:
        """How many operations are in which state, by name."""
        return dict(Counter(str(node.state) for node in self.nodes))

    def done(self, ticket: Ticket) -> bool:
        """Whether the computations of a ticket are done."""
        if ticket.step != self.number:
            raise PlanError(f"expected a ticket of step {self.number}, got one of step {ticket.step}")
        # Most often the last one is missing.
        return all(self.nodes[id].state is NodeState.DONE for id in reversed(ticket.computes))
