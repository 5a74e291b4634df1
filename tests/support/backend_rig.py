"""A backend by name with weights, and a log of what every computation read."""

from contextlib import contextmanager

import torch

from prescope.formulation import CostModel, LinearTime, Link
from prescope.runtime import DeviceArena, ProgramBuilder, Stepper, open_backend, synthetic_store
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.backends.disk import DiskOptions

LAYERS, EXPERTS, SLOTS = 3, 6, 3
RESIDENTS = ((0,), (0,), (0,))
OPTIONS = {
    "sim": None,
    "cpu": CpuOptions(dilation=20.0, drain_s=0.5),
    "disk": DiskOptions(depth=2, stall_floor_s=5.0, drain_s=0.5),
}
COSTS = CostModel(
    expert_bytes=(1000,) * LAYERS,
    link=Link(bytes_per_s=10**9, latency_ns=9000),
    gpu=(LinearTime(fixed_ns=8000),),
    cpu=(LinearTime(fixed_ns=12_000),),
    dense=(LinearTime(fixed_ns=5000),),
)


class Rig:
    """A backend with weights, and a log of what every computation read."""

    def __init__(self, name, options=None):
        self.store = synthetic_store(layers=LAYERS, experts=EXPERTS)
        self.arena = DeviceArena(self.store, residents=RESIDENTS, slots=SLOTS)
        self.backend = open_backend(name, self.store, self.arena, options or OPTIONS[name])
        builder = ProgramBuilder(costs=COSTS, experts=EXPERTS, slots=SLOTS, residents=RESIDENTS)
        self.stepper = Stepper(builder, self.backend)
        self.read = {}

    def work(self, layer, experts, action=None):
        def reader(expert):
            def run(weights):
                if action is not None:
                    action(layer, expert)
                self.read[layer, expert] = {name: part.clone() for name, part in weights.items()}

            return run

        return {expert: reader(expert) for expert in experts}

    def layer(self, layer, action=None, before_wait=None):
        """One layer: expert 0 is resident, 1 and 2 are copied, 3 runs on the host, 4 comes for the next."""
        self.stepper.dense_begin(layer)
        self.stepper.dense_end()
        ahead = [] if layer == 0 else [2]
        now = [1] if ahead else [1, 2]
        copies = [(layer, expert, self.slot(layer, expert)) for expert in now]
        if layer + 1 < LAYERS:
            copies.append((layer + 1, 2, self.slot(layer + 1, 2)))
        ticket = self.stepper.submit(
            layer,
            gpu=[(0, 1), (1, 1), (2, 1)],
            cpu=[(3, 1)],
            copies=copies,
            work=self.work(layer, (0, 1, 2, 3), action),
        )
        if before_wait is not None:
            before_wait(layer)
        self.stepper.wait(ticket)

    @staticmethod
    def slot(layer, expert):
        return 0 if expert == 1 else 1 + layer % 2

    def step(self, action=None, before_wait=None):
        self.read.clear()
        self.stepper.begin_step(batch_tokens=1)
        for layer in range(LAYERS):
            self.layer(layer, action, before_wait)
        return self.stepper.end_step()

    def expect_true_weights(self, but=()):
        assert set(self.read) == {(layer, expert) for layer in range(LAYERS) for expert in (0, 1, 2, 3)}
        for (layer, expert), parts in self.read.items():
            wanted = self.store.views(layer, self.store.row(layer, expert))
            same = all(torch.equal(part, wanted[name]) for name, part in parts.items())
            assert same == ((layer, expert) not in but), (layer, expert)


@contextmanager
def rig(name, options=None):
    made = Rig(name, options)
    try:
        yield made
    finally:
        made.backend.close()
