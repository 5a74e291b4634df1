"""Slots that outlive the step: what the builder believes, and what the verifier refuses."""

from itertools import pairwise

import msgspec
import pytest
from closure_oracle import closure_finds
from hypothesis import given
from hypothesis import strategies as st
from pooled_programs import PooledRun, pooled_runs

from prescope.formulation import CostModel, LinearTime, Link
from prescope.runtime import OpKind, PlanError, Program, ProgramBuilder, preamble, verify
from prescope.runtime.happens_before import hazards

LAYERS, EXPERTS = 2, 5
COSTS = CostModel(
    expert_bytes=(10,) * LAYERS,
    link=Link(bytes_per_s=10**9, latency_ns=2),
    gpu=(LinearTime(fixed_ns=3),),
    cpu=(LinearTime(fixed_ns=9),),
    dense=(LinearTime(fixed_ns=5),),
)


@pytest.fixture
def builder():
    return ProgramBuilder(
        costs=COSTS,
        experts=EXPERTS,
        slots=2,
        residents=((0,), ()),
        host_computes=False,
        carry=True,
    )


def step(builder, *waves, first=()):
    builder.begin_step(first, batch_tokens=4)
    for layer in range(LAYERS):
        builder.dense(layer)
        builder.wave(layer, **(waves[layer] if layer < len(waves) else {}))
    builder.end_step()
    return builder.program()


FILL = {"gpu": [(0, 1), (1, 1)], "copies": [(0, 1, 0), (1, 2, 1)]}


def test_what_a_step_copied_is_computed_in_the_next_without_a_copy(builder):
    first = step(builder, FILL, {"gpu": [(2, 1)]})
    assert first.initial == ()
    assert builder.contents() == first.final() == {0: (0, 1), 1: (1, 2)}
    second = step(builder, {"gpu": [(1, 1)]}, {"gpu": [(2, 1)]})
    assert second.initial == ((0, 0, 1), (1, 1, 2))
    assert not [op for op in second.ops if op.kind is OpKind.COPY]
    assert builder.slot_of(1, 2) == 1
    verify(first, second)
    verify(second)


def test_a_step_ends_with_its_last_copy(builder):
    program = step(builder, FILL)
    link = [op.id for op in program.ops if op.kind is OpKind.COPY]
    assert link[-1] in program.ops[-1].waits
    verify(program)
    with pytest.raises(PlanError, match="order on slot:1 between copy .* and join"):
        verify(program.without_edges([(link[-1], program.ops[-1].id)]))


def test_any_content_from_before_may_be_overwritten_unless_this_wave_needs_it(builder):
    step(builder, FILL, {"gpu": [(2, 1)]})
    # The slot of the layer that runs, of one that is to come, and at the very start.
    program = step(builder, {"copies": [(0, 3, 0), (1, 3, 1)]}, {"gpu": [(3, 1)]})
    verify(program)
    program = step(builder, {}, {}, first=[(0, 1, 1), (1, 4, 0)])
    assert builder.contents() == {1: (0, 1), 0: (1, 4)}
    verify(program)
    with pytest.raises(PlanError, match="free by then.*while it holds layer 0 expert 1, not yet computed"):
        step(builder, {"gpu": [(3, 1), (1, 1)], "copies": [(0, 3, 1)]})


def test_a_slot_is_taken_over_once_its_carried_expert_is_computed(builder):
    first = step(builder, FILL, {"gpu": [(2, 1)]})
    second = step(builder, {"gpu": [(1, 1), (3, 1)], "copies": [(0, 3, 0)]}, {"gpu": [(2, 1)]})
    (copy,) = [op for op in second.ops if op.kind is OpKind.COPY]
    (compute,) = [op for op in second.ops if (op.kind, op.expert) == (OpKind.COMPUTE, 1)]
    assert copy.waits == (compute.id,)
    verify(first, second)
    with pytest.raises(PlanError, match="order on slot:0"):
        verify(first, second.without_edges([(compute.id, copy.id)]))


def test_a_copy_of_this_step_for_a_later_layer_stays(builder):
    step(builder, FILL, {"gpu": [(2, 1)]})
    with pytest.raises(PlanError, match="free by then"):
        step(builder, {"copies": [(1, 3, 0), (0, 4, 0)]})


def test_an_expert_that_a_slot_holds_is_not_copied_again_until_it_was_overwritten(builder):
    step(builder, FILL, {"gpu": [(2, 1)]})
    with pytest.raises(PlanError, match="expected an expert that no slot holds, got .* one to slot 1"):
        step(builder, first=[(1, 2, 0)])
    builder.abort_step()
    step(builder, FILL, {"gpu": [(2, 1)]})
    program = step(
        builder,
        # 2 of layer 1 makes way and comes back; 1 is computed, makes way, and comes back for the next step.
        {"gpu": [(1, 1), (3, 1)], "copies": [(0, 3, 1), (0, 4, 0), (0, 1, 1), (1, 2, 0)]},
        {"gpu": [(2, 1)]},
    )
    assert builder.contents() == {1: (0, 1), 0: (1, 2)}
    verify(program)


def test_after_an_aborted_step_nothing_is_believed(builder):
    step(builder, FILL, {"gpu": [(2, 1)]})
    builder.begin_step(batch_tokens=1)
    builder.abort_step()
    assert builder.contents() == {}
    with pytest.raises(PlanError, match="expected a copy of layer 0 expert 1"):
        step(builder, {"gpu": [(1, 1)]})
    builder.abort_step()
    assert step(builder, FILL).initial == ()


def test_contents_that_the_step_before_does_not_leave_are_refused(builder):
    first = step(builder, FILL, {"gpu": [(2, 1)]})
    second = step(builder, {"gpu": [(1, 1)]})
    other = msgspec.structs.replace(first, initial=(), ops=first.ops[:1])
    with pytest.raises(PlanError, match="to leave layer 0 expert 1 in slot 0, got nothing"):
        verify(other, second)
    wrong = msgspec.structs.replace(second, initial=((0, 0, 2), (1, 1, 2)))
    with pytest.raises(PlanError, match="in slot 0, got layer 0 expert 1"):
        verify(first, wrong)
    with pytest.raises(PlanError, match="to hold what compute .* got layer 0 expert 2 from before"):
        verify(wrong)
    empty = msgspec.structs.replace(second, initial=())
    with pytest.raises(PlanError, match="to be filled in the step"):
        verify(empty)


def test_a_step_that_does_not_hand_over_what_it_finds_is_refused(builder):
    step(builder, FILL, {"gpu": [(2, 1)]})
    program = step(builder, {"copies": [(0, 3, 0)]})
    for at, name in ((0, "fork"), (-1, "join")):
        ops = list(program.ops)
        ops[at] = msgspec.structs.replace(ops[at], writes=(), reads=())
        with pytest.raises(PlanError, match=f"expected the {name} of step 0 to name slots"):
            verify(msgspec.structs.replace(program, ops=tuple(ops)))


@pytest.mark.parametrize("initial", [((2, 0, 1),), ((0, 0, 1), (0, 1, 1))])
def test_impossible_initial_contents_are_refused(builder, initial):
    with pytest.raises(PlanError, match="distinct initial slots"):
        msgspec.structs.replace(step(builder, FILL), initial=initial)


@given(seed=st.integers(0, 10**6))
def test_the_controllers_steps_are_accepted_and_both_believe_the_same(seed):
    run = PooledRun(seed)
    previous = None
    for _ in range(3):
        program = run.step()
        assert run.builder.contents() == program.final() == run.owners()
        assert Program.from_json(program.to_json()) == program
        verify(program)
        verify(preamble(program), program)
        if previous is not None:
            assert {slot: tuple(owner) for slot, *owner in program.initial} == previous.final()
            verify(previous, program)
        previous = program


def test_every_dropped_wait_is_found_in_the_step_alone_and_as_the_closure_says_in_two():
    edges = 0
    for _, programs in pooled_runs(90, max_layers=3, max_experts=5):
        for first, second in pairwise(programs):
            assert not closure_finds(first, second)
            for edge in second.edges():
                edges += 1
                mutant = second.without_edges([edge])
                assert any(hazards(first, mutant)) == closure_finds(first, mutant)
                assert any(hazards(mutant)), edge
            for edge in first.edges():
                mutant = first.without_edges([edge])
                assert any(hazards(mutant, second)) == closure_finds(mutant, second)
    assert edges > 800
