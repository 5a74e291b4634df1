"""A discrete-event simulation of a plan: a clock, a heap of events, three lanes and slots.

Written from the documented rules only and shares no code with the evaluator: nothing is computed before its
time comes, so that a deadlock shows as an empty heap.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from prescope.formulation import InfeasibleReason, Instance, Plan

# kind, lane, layer, expert, slot, start, end
TaskRow = tuple[str, str, int, int | None, int | None, int, int]


class DeadlockError(Exception):
    """Nothing can happen any more and layers are left."""

    def __init__(self, reason: InfeasibleReason, copy: int, layer: int) -> None:
        super().__init__(f"{reason.value}: copy {copy} blocks layer {layer}")
        self.reason, self.copy, self.layer = reason, copy, layer


@dataclass
class Simulated:
    """What happened, in order of starting."""

    tasks: list[TaskRow]
    layer_end_ns: list[int]

    @property
    def makespan_ns(self) -> int:
        return self.layer_end_ns[-1]


@dataclass
class _Slot:
    copy: int | None = None
    free_since: int = 0


class _Simulation:
    def __init__(self, instance: Instance, plan: Plan) -> None:
        self.instance, self.plan = instance, plan
        self.now = 0
        self.events: list[tuple[int, int, Callable[..., None], tuple[int, ...]]] = []
        self.counter = 0
        self.layer = 0
        self.tasks: list[TaskRow] = []
        self.layer_ends: list[int] = []
        self.passed_gates: set[int] = {-1}
        self.slots = [_Slot() for _ in range(instance.slots)]
        self.slot_of: dict[tuple[int, int], int] = {}
        self.landed: set[tuple[int, int]] = set()
        self.next_copy = 0
        self.link_busy = True
        self.gpu_busy = self.cpu_busy = False
        self.gpu_queue: deque[int] = deque()
        # (layer, expert) to compute, or (layer, None) for the predictions after that layer's gate.
        self.cpu_queue: deque[tuple[int, int | None]] = deque()
        self.host_experts_left = 0

    def run(self) -> Simulated:
        self.after(self.instance.link_ready_ns, self.link_free)
        self.begin_layer()
        while self.events:
            self.now = self.events[0][0]
            # Everything of this instant, zero-length work included, comes before the link chooses a slot.
            while self.events and self.events[0][0] == self.now:
                _, _, handler, arguments = heapq.heappop(self.events)
                handler(*arguments)
            self.try_copy()
        if len(self.layer_ends) < self.instance.layers:
            released = self.release_gate(self.next_copy) in self.passed_gates
            reason = InfeasibleReason.SLOT_OVERFLOW if released else InfeasibleReason.TRANSFER_AFTER_USE
            raise DeadlockError(reason, self.next_copy, self.layer)
        return Simulated(self.tasks, self.layer_ends)

    def after(self, delay: int, handler: Callable[..., None], *arguments: int) -> None:
        self.counter += 1
        heapq.heappush(self.events, (self.now + delay, self.counter, handler, arguments))

    def record(self, kind: str, lane: str, expert: int | None, slot: int | None, length: int) -> None:
        self.tasks.append((kind, lane, self.layer, expert, slot, self.now, self.now + length))

    def begin_layer(self) -> None:
        if self.layer == self.instance.layers:
            return
        length = self.instance.costs.dense_ns(self.layer, self.instance.demand.batch_tokens)
        self.record("dense", "gpu", None, None, length)
        self.after(length, self.gate)

    def gate(self) -> None:
        self.passed_gates.add(self.layer)
        self.gpu_queue.extend(self.plan.layers[self.layer].gpu)
        host = self.plan.layers[self.layer].cpu
        self.host_experts_left = len(host)
        self.cpu_queue.extend((self.layer, expert) for expert in host)
        if self.instance.prediction_ns:
            self.cpu_queue.append((self.layer, None))
        for slot in self.slots:
            if slot.copy is not None:
                self.free_if_dropped(slot)
        self.dispatch()

    def dispatch(self) -> None:
        """Start what the device and the host can start now; end the layer when nothing of it is left."""
        costs, counts = self.instance.costs, self.instance.demand.counts
        if self.gpu_queue and not self.gpu_busy:
            key = (self.layer, self.gpu_queue[0])
            if key in self.landed or key[1] in self.instance.residents[self.layer]:
                expert = self.gpu_queue.popleft()
                length = costs.gpu_ns(self.layer, int(counts[key]))
                self.gpu_busy = True
                self.record("compute", "gpu", expert, self.slot_of.get(key), length)
                self.after(length, self.gpu_done, expert)
        if self.cpu_queue and not self.cpu_busy:
            layer, expert = self.cpu_queue.popleft()
            self.cpu_busy = True
            if expert is None:
                length = self.instance.prediction_ns[layer]
                if length:
                    self.tasks.append(("predict", "cpu", layer, None, None, self.now, self.now + length))
            else:
                length = costs.cpu_ns(layer, int(counts[layer, expert]))
                self.record("compute", "cpu", expert, None, length)
            self.after(length, self.cpu_done, int(expert is not None))
        finished = not (self.gpu_queue or self.gpu_busy or self.host_experts_left)
        if self.layer == self.instance.layers - 1:
            finished = finished and not (self.cpu_queue or self.cpu_busy)
        if finished and self.layer in self.passed_gates:
            self.layer_ends.append(self.now)
            self.layer += 1
            self.begin_layer()

    def gpu_done(self, expert: int) -> None:
        slot = self.slot_of.get((self.layer, expert))
        if slot is not None:
            self.slots[slot] = _Slot(free_since=self.now)
        self.gpu_busy = False
        self.dispatch()

    def cpu_done(self, experts: int) -> None:
        self.cpu_busy = False
        self.host_experts_left -= experts
        self.dispatch()

    def link_free(self) -> None:
        self.link_busy = False

    def release_gate(self, copy: int) -> int:
        transfer = self.plan.transfers[copy]
        if transfer.gate is not None:
            return transfer.gate
        return transfer.layer - self.instance.lookahead if transfer.layer >= self.instance.lookahead else -1

    def try_copy(self) -> None:
        if self.link_busy or self.next_copy == len(self.plan.transfers):
            return
        if self.release_gate(self.next_copy) not in self.passed_gates:
            return
        transfer = self.plan.transfers[self.next_copy]
        candidates = range(len(self.slots)) if transfer.slot is None else [transfer.slot]
        free = [slot for slot in candidates if self.slots[slot].copy is None]
        if not free:
            return
        slot = min(free, key=lambda index: (self.slots[index].free_since, index))
        length = self.instance.costs.copy_ns(transfer.layer)
        self.slots[slot] = _Slot(copy=self.next_copy)
        self.slot_of[transfer.layer, transfer.expert] = slot
        self.tasks.append(
            ("copy", "link", transfer.layer, transfer.expert, slot, self.now, self.now + length)
        )
        self.link_busy = True
        self.after(length, self.copy_done, self.next_copy, slot)
        self.next_copy += 1

    def copy_done(self, copy: int, slot: int) -> None:
        transfer = self.plan.transfers[copy]
        self.landed.add((transfer.layer, transfer.expert))
        self.link_busy = False
        self.free_if_dropped(self.slots[slot])
        if self.layer < self.instance.layers and self.layer in self.passed_gates:
            self.dispatch()

    def free_if_dropped(self, slot: _Slot) -> None:
        """Free a landed copy that its layer, whose gate has passed, does not compute on the device."""
        assert slot.copy is not None
        transfer = self.plan.transfers[slot.copy]
        dropped = transfer.expert not in self.plan.layers[transfer.layer].gpu
        landed = (transfer.layer, transfer.expert) in self.landed
        if dropped and landed and transfer.layer in self.passed_gates:
            slot.copy, slot.free_since = None, self.now


def simulate(instance: Instance, plan: Plan) -> Simulated:
    """Play a plan that keeps the static rules.

    Raises
    ------
    DeadlockError
        When nothing can happen any more and layers are left; with the copy at the head of the link.
    """
    return _Simulation(instance, plan).run()
