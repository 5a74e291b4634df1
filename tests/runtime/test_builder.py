"""The builder accepts what can run and refuses the rest before anything runs."""

import pytest

from prescope.formulation import CostModel, LinearTime, Link
from prescope.runtime import OpKind, PlanError, ProgramBuilder, Stream, verify

LAYERS, EXPERTS, SLOTS = 3, 6, 2


@pytest.fixture
def builder():
    return make_builder()


def make_builder(**changes):
    costs = CostModel(
        expert_bytes=(10,) * LAYERS,
        link=Link(bytes_per_s=10**9, latency_ns=2),
        gpu=(LinearTime(fixed_ns=3),),
        cpu=(LinearTime(fixed_ns=9, per_token_ns=2),),
        dense=(LinearTime(fixed_ns=5),),
    )
    settings = {"costs": costs, "experts": EXPERTS, "slots": SLOTS, "residents": ((0,), (), (5,))}
    return ProgramBuilder(**(settings | changes))


def step(builder, *waves, first=()):
    builder.begin_step(first, batch_tokens=4)
    for layer in range(LAYERS):
        builder.dense(layer)
        builder.wave(layer, **(waves[layer] if layer < len(waves) else {}))
    builder.end_step()
    return builder.program()


def test_an_expert_waits_for_its_copy_and_the_gate_and_a_copy_for_the_readers(builder):
    program = step(
        builder,
        {"gpu": [(1, 2), (2, 2), (3, 1)], "copies": [(0, 1, 0), (0, 2, 1), (0, 3, 0), (1, 4, 1)]},
    )
    by_expert = {(op.kind, op.layer, op.expert): op for op in program.ops}
    dense = by_expert[OpKind.DENSE, 0, None].id
    copies = [by_expert[OpKind.COPY, 0, expert] for expert in (1, 2, 3)]
    computes = [by_expert[OpKind.COMPUTE, 0, expert] for expert in (1, 2, 3)]
    assert computes[0].waits == (dense, copies[0].id)
    assert computes[1].waits == (copies[1].id,)
    assert computes[2].waits == (copies[2].id,)
    assert copies[2].waits == (computes[0].id,)
    assert by_expert[OpKind.COPY, 1, 4].waits == (computes[1].id,)
    assert by_expert[OpKind.DENSE, 1, None].waits == (computes[2].id,)
    verify(program)


def test_durations_come_from_the_costs(builder):
    program = step(builder, {"gpu": [(1, 2)], "cpu": [(2, 3)], "copies": [(0, 1, 0)]})
    durations = {(op.kind, op.stream): op.predicted_ns for op in program.ops if op.layer == 0}
    assert durations == {
        (OpKind.DENSE, Stream.CALLER): 5,
        (OpKind.COPY, Stream.LINK): 12,
        (OpKind.COMPUTE, Stream.GPU): 3,
        (OpKind.COMPUTE, Stream.CPU): 15,
    }


def test_the_first_copy_of_a_step_waits_for_the_fork(builder):
    wave = {"gpu": [(1, 2)], "copies": [(0, 1, 0), (1, 1, 1)]}
    first, second = step(builder, wave), step(builder, wave)
    assert [op.waits for op in first.stream(Stream.LINK)] == [(0,), ()]
    assert first == second
    verify(first)
    with pytest.raises(PlanError, match="order on slot:0"):
        verify(first.without_edges([(0, 2)]))


def test_an_unused_copy_gives_its_slot_back_at_its_gate(builder):
    program = step(builder, {"copies": [(1, 1, 0)]}, {"copies": [(2, 2, 0)]}, {"gpu": [(2, 1)]})
    verify(program)


@pytest.mark.parametrize(
    ("waves", "first", "message"),
    [
        ([{"gpu": [(1, 1)]}], (), "expected a copy of layer 0 expert 1"),
        ([{"gpu": [(9, 1)]}], (), r"expert in \[0, 5\], got 9 in layer 0"),
        ([{"gpu": [(0, 1)], "cpu": [(0, 1)]}], (), "expected each expert once in layer 0, got 0 again"),
        ([{"copies": [(0, 9, 0)]}], (), r"expert in \[0, 5\]"),
        ([{"copies": [(3, 1, 0)]}], (), r"layer in \[0, 2\]"),
        ([{}, {"copies": [(0, 1, 0)]}], (), r"layer in \[1, 2\]"),
        ([{"copies": [(0, 1, 2)]}], (), "one of 2 slots"),
        ([{"copies": [(0, 1, -1)]}], (), "one of 2 slots"),
        ([{"copies": [(0, 0, 0)]}], (), "not resident"),
        ([{"copies": [(1, 1, 0), (1, 1, 1)]}], (), "one copy per expert and step"),
        ([{"copies": [(1, 1, 0), (2, 2, 0)]}], (), "free by then"),
        ([], ((0, 1, 0), (1, 1, 0)), "free by then"),
        ([{"gpu": [(2, 1), (1, 1)], "copies": [(0, 1, 0), (0, 2, 0)]}], (), "free by then"),
        (
            [{"gpu": [(1, 1), (2, 1)], "copies": [(0, 1, 0), (0, 2, 0), (0, 2, 1)]}],
            (),
            "one copy per",
        ),
    ],
)
def test_what_cannot_be_right_is_refused(builder, waves, first, message):
    with pytest.raises(PlanError, match=message):
        step(builder, *waves, first=first)


def test_after_an_aborted_step_the_next_one_is_right(builder):
    with pytest.raises(PlanError):
        step(builder, {"gpu": [(1, 1), (2, 1)], "copies": [(0, 1, 0)]})
    builder.abort_step()
    program = step(builder, {"gpu": [(1, 1)], "copies": [(0, 1, 0)]})
    assert program.stream(Stream.LINK)[0].waits == (0,)
    verify(program)


def test_calls_out_of_order_are_refused(builder):
    with pytest.raises(PlanError, match="'begin_step', got 'dense 0'"):
        builder.dense(0)
    builder.begin_step(batch_tokens=1)
    with pytest.raises(PlanError, match="'dense 0', got 'wave 0'"):
        builder.wave(0)
    builder.dense(0)
    builder.wave(0)
    with pytest.raises(PlanError, match="'dense 1', got 'end_step'"):
        builder.end_step()


def test_a_host_that_cannot_compute_gets_no_work():
    with pytest.raises(PlanError, match="cannot compute"):
        step(make_builder(host_computes=False), {"cpu": [(1, 1)]})


def test_residents_must_exist():
    with pytest.raises(PlanError, match=r"residents in \[0, 5\], got 6"):
        make_builder(residents=((6,), (), ()))
    with pytest.raises(PlanError, match="residents for 3 layers"):
        make_builder(residents=((1,),))
