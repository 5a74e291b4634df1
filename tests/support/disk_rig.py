"""A pool of rows over a store whose reads call a hook, driven step by step."""

from contextlib import contextmanager

import torch
from hooked_store import hooked_store

from prescope.formulation import CostModel, LinearTime, Link
from prescope.runtime import DeviceArena, ProgramBuilder, Stepper, open_backend, verify
from prescope.runtime.backends.disk import DiskOptions

LAYERS, EXPERTS = 2, 8
COSTS = CostModel(
    expert_bytes=(100,) * LAYERS,
    link=Link(bytes_per_s=10**9),
    gpu=(LinearTime(fixed_ns=100),),
    cpu=(LinearTime(fixed_ns=100),),
    dense=(LinearTime(fixed_ns=100),),
)
PATIENT_S = 20


class Rig:
    """A pool of rows over a store, whose steps remember what every computation read."""

    def __init__(self, slots=4, hook=None, carry=True, **options):
        self.store = hooked_store(layers=LAYERS, experts=EXPERTS, hook=hook)
        self.arena = DeviceArena(self.store, residents=((),) * LAYERS, slots=slots)
        settings = {"stall_floor_s": PATIENT_S, "drain_s": 1.0} | options
        self.backend = open_backend("disk", self.store, self.arena, DiskOptions(**settings))
        self.builder = ProgramBuilder(
            costs=COSTS, experts=EXPERTS, slots=slots, residents=((),) * LAYERS, carry=carry
        )
        self.stepper = Stepper(self.builder, self.backend)
        self.order = []

    def step(self, *waves, first=(), work=None, cpu=()):
        self.order.clear()
        self.stepper.begin_step(first, batch_tokens=1)
        for layer in range(LAYERS):
            gpu, copies = waves[layer] if layer < len(waves) else ((), ())
            self.stepper.dense_begin(layer)
            self.stepper.dense_end()
            ticket = self.stepper.submit(
                layer,
                gpu=[(expert, 1) for expert in gpu],
                cpu=[(expert, 1) for expert in cpu],
                copies=[(layer, *copy) if len(copy) == 2 else copy for copy in copies],
                work={expert: self.reader(layer, expert, work) for expert in (*gpu, *cpu)},
            )
            self.stepper.wait(ticket)
        trace = self.stepper.end_step()
        verify(self.stepper.program())
        return trace

    def reader(self, layer, expert, work=None):
        def run(weights):
            if work is not None:
                work(layer, expert)
            self.order.append((layer, expert))
            wanted = self.store.views(layer, self.store.hidden.row(layer, expert))
            assert all(torch.equal(part, wanted[name]) for name, part in weights.items())

        return run


@contextmanager
def rig(**settings):
    made = Rig(**settings)
    try:
        yield made
    finally:
        made.backend.close()


FILL = ((0, 1, 2, 3), [(0, 0), (1, 1), (2, 2), (3, 3)])
