"""When simulated operations touch memory: what a wrong order would garble is garbled."""

import pytest

from prescope.formulation import CostModel, LinearTime, Link
from prescope.runtime import (
    ContentError,
    DeviceArena,
    ExecutionError,
    ProgramBuilder,
    Stepper,
    open_backend,
    synthetic_store,
)
from prescope.runtime.backends.sim import SimOptions

COSTS = CostModel(
    expert_bytes=(100,),
    link=Link(bytes_per_s=10**9),
    gpu=(LinearTime(fixed_ns=100),),
    cpu=(LinearTime(fixed_ns=50),),
    dense=(LinearTime(fixed_ns=10),),
)


@pytest.fixture
def sim():
    store = synthetic_store(layers=1, experts=4)
    arena = DeviceArena(store, residents=((),), slots=1)
    backend = open_backend("sim", store, arena, SimOptions(chunks=4))
    builder = ProgramBuilder(costs=COSTS, experts=4, slots=1, residents=((),))
    yield arena, backend, Stepper(builder, backend)
    backend.close()


def run(stepper, work, hosts):
    """The copy takes 10..110, the computation of expert 1 110..210, those on the host 10..60, 60..110, ..."""
    stepper.begin_step(batch_tokens=1)
    stepper.dense_begin(0)
    stepper.dense_end()
    ticket = stepper.submit(
        0, gpu=[(1, 1)], cpu=[(expert, 1) for expert in hosts], copies=[(0, 1, 0)], work=work
    )
    stepper.wait(ticket)


def test_a_computation_reads_its_first_part_at_its_start_and_the_rest_at_its_end(sim):
    arena, _, stepper = sim
    seen = {}

    def overwrite(_weights):
        arena.slot_row(0, 0, 0).fill_(99.0)

    def read(weights):
        seen.update({name: bool((part == 99.0).all()) for name, part in weights.items()})

    # The third computation on the host ends at 160, in the middle of expert 1.
    run(stepper, {1: read, 0: lambda _: None, 2: lambda _: None, 3: overwrite}, hosts=[0, 2, 3])
    assert seen == {"gate": False, "up": True, "down": True}


def test_a_copy_lands_piece_by_piece_on_nan(sim):
    arena, _, stepper = sim
    landed = []

    def look(_weights):
        landed.append(int((~arena.slot_row(0, 0, 0).isnan()).sum()))

    for _ in range(2):
        run(stepper, {1: lambda _: None, 0: look, 2: look}, hosts=[0, 2])
        stepper.end_step()
    # At 60 half of the copy has landed, at 110 all of it; in the second step over what the first left.
    assert landed == [12, 24, 12, 24]


def test_the_built_in_work_compares_every_value(sim):
    arena, _, stepper = sim

    def disturb(_weights):
        arena.slot_row(0, 0, 0)[23] += 1

    with pytest.raises(ExecutionError, match="expected the weights of layer 0 expert 1") as caught:
        run(stepper, {0: lambda _: None, 2: lambda _: None, 3: disturb}, hosts=[0, 2, 3])
    assert isinstance(caught.value.__cause__, ContentError)
