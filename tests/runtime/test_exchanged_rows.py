"""Residents that exchange rows with slots: the same steps to the evaluator, the verifier and the memory."""

import random
from itertools import pairwise

import msgspec
import pytest
from closure_oracle import closure_finds
from retained_runs import RetainedRun, retained_runs

from prescope.formulation import evaluate
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.formulation.presets import preset
from prescope.runtime import OpKind, PlanError, ProgramBuilder, SlotState, execute, verify
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.backends.delays import swarm_speeds
from prescope.runtime.backends.sim import SimOptions
from prescope.runtime.happens_before import hazards
from prescope.runtime.recovery import recover


def test_simulated_steps_are_the_evaluators_and_every_weight_is_the_right_one():
    exchanges = carried = 0
    for run, steps in retained_runs(60):
        backend, _ = run.machine()
        for step in steps:
            trace = execute(backend, step.program, link_busy_ns=step.instance.link_ready_ns)
            assert trace.schedule == evaluate(step.instance, step.plan)
            exchanges += step.exchanges
            carried += bool(trace.carried)
        backend.close()
    assert exchanges > 30
    assert carried > 0


def test_the_steps_are_a_legal_horizon_of_the_same_length():
    moved = at_work = 0
    for run, steps in retained_runs(80, first=500):
        if run.instance.prediction_ns:
            continue
        judged = evaluate_horizon(*run.horizon(steps))
        assert list(judged.step_ns) == [step.plan.info.makespan_ns for step in steps]
        moved += sum(a.instance.residents != b.instance.residents for a, b in pairwise(steps))
        at_work += sum(step.at_work for step in steps)
    assert moved > 25
    assert at_work > 10


def test_any_speeds_and_whole_programs_issued_at_once_read_the_right_weights():
    for seed, (run, steps) in enumerate(retained_runs(60, first=1000)):
        backend, _ = run.machine("sim", SimOptions(speeds=swarm_speeds(seed)))
        backend.replay([step.program for step in steps])
        backend.close()


def test_slow_motion_reads_the_right_weights():
    for run, steps in retained_runs(6, first=2000, steps=3):
        backend, _ = run.machine("cpu", CpuOptions(dilation=1.0))
        for step in steps:
            execute(backend, step.program, link_busy_ns=step.instance.link_ready_ns)
        backend.close()


def test_every_dropped_wait_that_matters_is_found_over_the_borders_of_steps():
    found = needless = 0
    for _, steps in retained_runs(25, first=3000, steps=3, max_layers=3, max_experts=4):
        programs = [step.program for step in steps]
        verify(programs[0])
        for before, after in pairwise(programs):
            verify(before, after)
            assert not closure_finds(before, after)
            for edge in after.edges():
                mutant = after.without_edges([edge])
                wrong = closure_finds(before, mutant)
                assert bool(list(hazards(before, mutant))) == wrong
                found += wrong
                needless += not wrong
    assert found > 200
    # What keeps the modelled times: a slot is free once its expert is computed, also where its row changed.
    assert needless < found / 2


def test_the_verifier_agrees_with_the_closure_on_copies_that_go_astray():
    generator, damaged = random.Random(5), 0
    for _, steps in retained_runs(60, first=4000, steps=2, max_layers=3, max_experts=4):
        before, after = (step.program for step in steps)
        ops = list(after.ops)
        touching = [op.id for op in ops if op.place is not None]
        if not touching:
            continue
        at = generator.choice(touching)
        row = generator.randrange(after.slots)
        names = {f"slot:{ops[at].place}": f"slot:{row}"}
        ops[at] = msgspec.structs.replace(
            ops[at],
            row=row,
            reads=tuple(names.get(name, name) for name in ops[at].reads),
            writes=tuple(names.get(name, name) for name in ops[at].writes),
        )
        mutant = msgspec.structs.replace(after, ops=tuple(ops))
        wrong = closure_finds(before, mutant)
        assert bool(list(hazards(before, mutant))) >= wrong
        damaged += wrong
    assert damaged > 15


def test_a_step_that_expects_what_may_not_have_landed_is_refused():
    for _, steps in retained_runs(100, first=5000):
        for before, after in pairwise(step.program for step in steps):
            if after.pending:
                early = msgspec.structs.replace(after, pending=())
                with pytest.raises(PlanError, match="expected the fork of step 1 to name"):
                    verify(before, early)
                fork = msgspec.structs.replace(
                    after.ops[0], writes=tuple(f"slot:{row}" for row in range(after.slots))
                )
                early = msgspec.structs.replace(early, ops=(fork, *after.ops[1:]))
                with pytest.raises(PlanError, match="which the step before left open, to be pending"):
                    verify(before, early)
                assert closure_finds(before, early)
                return
    raise AssertionError("no step left a copy under way")


def test_a_copy_of_two_steps_ago_may_still_be_under_way():
    for _, steps in retained_runs(20, first=9060):
        for before, after in pairwise(step.program for step in steps):
            ours = {op.place for op in before.ops if op.kind is OpKind.COPY}
            if older := set(after.pending) - ours:
                kept = tuple(row for row in after.pending if row in ours)
                taken = tuple(f"slot:{row}" for row in range(after.slots) if row not in kept)
                fork = msgspec.structs.replace(after.ops[0], writes=taken)
                early = msgspec.structs.replace(after, pending=kept, ops=(fork, *after.ops[1:]))
                verify(before, after)
                with pytest.raises(PlanError, match=rf"slots \[{min(older)}.*to be pending, got not"):
                    verify(before, early)
                return
    raise AssertionError("no copy was under way over two steps")


@pytest.mark.parametrize("name", ["sim", "cpu"])
def test_after_a_fault_the_residents_of_the_step_are_back(name):
    read_again = 0
    for seed in range(6000, 6012 if name == "sim" else 6004):
        run = RetainedRun(seed)
        options = CpuOptions(dilation=1.0) if name == "cpu" else None
        backend, arena = run.machine(name, options)
        other, other_arena = run.machine()
        for attempt in range(3):
            step = run.step()
            execute(backend, step.program, link_busy_ns=step.instance.link_ready_ns)
            execute(other, step.program, link_busy_ns=step.instance.link_ready_ns)
            before = run.builder.residents()
            failing = run.step().program
            backend.begin_step(failing.wave(-1))
            for layer in range(min(attempt, run.instance.layers)):
                dense = next(op for op in failing.ops if op.kind is OpKind.DENSE and op.layer == layer)
                backend.dense_begin(dense)
                backend.dense_end(dense)
                backend.wait(backend.submit(failing.wave(layer)))
            backend.cancel()
            run.builder.abort_step()
            backend.reset()
            read_again += recover(run.builder, [(backend, arena), (other, other_arena)])
            assert run.builder.residents() == before
            run.retention.resume(run.builder.residents())
            run._link_ready_ns = 0
        step = run.step()
        verify(step.program)
        for machine in (backend, other):
            execute(machine, step.program)
            machine.close()
    assert read_again


def test_a_row_that_may_still_be_written_never_becomes_a_residents():
    run = next(run for seed in range(6100, 6200) if (run := RetainedRun(seed)).builder.resident_rows())
    backend, arena = run.machine()
    before = run.builder.residents()
    lost = run.builder.resident_rows()[0][0]
    backend.slots.bury(lost)
    run.builder.abort_step()
    assert recover(run.builder, [(backend, arena)]) == 1
    assert run.builder.residents() == before
    assert lost not in {row for row, _, _ in run.builder.resident_rows()}
    assert backend.slots.state(lost) is SlotState.ZOMBIE
    # Once more, before any step: nothing is left to be read.
    run.builder.abort_step()
    assert recover(run.builder, [(backend, arena)]) == 0
    assert run.builder.residents() == before
    backend.close()


@pytest.fixture
def builder():
    costs = preset("mixtral-8x7b@a100-pcie4", layers=2).costs
    return ProgramBuilder(costs=costs, experts=4, slots=2, residents=((0, 1), (0, 1)), exchange=True)


def wave(builder, layer=0, **decision):
    builder.begin_step(batch_tokens=1)
    builder.dense(layer)
    return builder.wave(layer, **decision)


def test_an_exchange_takes_effect_with_the_next_copy_and_the_next_step(builder):
    ops = wave(builder, gpu=[(2, 1), (0, 1)], copies=[(0, 2, 0), (1, 3, 0)], exchanges=[(2, 1)])
    copies = [op for op in ops if op.kind is OpKind.COPY]
    # The slot is the plan's; the second copy goes to the victim's row.
    assert [(op.slot, op.row) for op in copies] == [(0, 0), (0, 3)]
    assert builder.residents() == ((0, 1), (0, 1))
    builder.dense(1)
    builder.wave(1, gpu=[(3, 1)])
    builder.end_step()
    assert builder.residents() == ((0, 2), (0, 1))
    builder.begin_step(batch_tokens=1)
    builder.dense(0)
    (compute,) = builder.wave(0, gpu=[(2, 1)])
    assert (compute.slot, compute.row, compute.reads) == (None, 0, ("input", "slot:0"))


def test_the_row_of_a_resident_at_work_is_written_once_it_is_done(builder):
    assert builder.lasting(0, [(0, 2, 0)]) == {2}
    assert builder.lasting(0, [(0, 2, 0), (1, 3, 0)]) == frozenset()
    ops = wave(builder, gpu=[(2, 1), (1, 1)], copies=[(0, 2, 0)], exchanges=[(2, 1)])
    (work,) = [op.id for op in ops if op.kind is OpKind.COMPUTE and op.expert == 1]
    assert builder.lasting(0, []) == {2}
    builder.dense(1)
    # Read on the device after the expert in the slot: the later one implies the earlier.
    (copy,) = [op for op in builder.wave(1, copies=[(1, 3, 0)]) if op.kind is OpKind.COPY]
    assert (copy.row, copy.waits) == (3, (work,))


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        ({"exchanges": [(2, 1)]}, "an expert in a slot"),
        ({"copies": [(0, 2, 0)], "exchanges": [(2, 3)]}, "a resident to give its row"),
        (
            {"copies": [(0, 2, 0), (1, 3, 0)], "gpu": [(2, 1), (1, 1)], "exchanges": [(2, 1)]},
            "no copy of the gate takes again",
        ),
        ({"copies": [(0, 2, 0), (0, 3, 1)], "exchanges": [(2, 1), (3, 1)]}, "each resident once"),
    ],
)
def test_exchanges_that_cannot_be_are_refused(builder, decision, message):
    with pytest.raises(PlanError, match=message):
        wave(builder, **decision)


def test_only_who_exchanges_rows_may_be_asked_to():
    costs = preset("mixtral-8x7b@a100-pcie4", layers=1).costs
    plain = ProgramBuilder(costs=costs, experts=4, slots=2, residents=((0,),))
    with pytest.raises(PlanError, match="not asked for"):
        wave(plain, copies=[(0, 2, 0)], exchanges=[(2, 0)])
    with pytest.raises(PlanError, match="got both"):
        ProgramBuilder(costs=costs, experts=4, slots=2, residents=((),), carry=True, exchange=True)
