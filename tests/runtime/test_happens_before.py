"""The static verifier against a transitive closure, and against every single-edge mutant."""

import random
from itertools import pairwise

import msgspec
import pytest
from closure_oracle import closure_finds
from runtime_cases import feasible_cases, plan_for, program_of

from prescope.runtime import OpKind, PlanError, Program, builder_for, verify
from prescope.runtime.compile import build_step, copies_by_gate
from prescope.runtime.happens_before import hazards


def test_every_compiled_program_passes_and_every_dropped_wait_is_found():
    edges = needless = 0
    for case in feasible_cases(150):
        program = program_of(case)
        verify(program)
        for edge in program.edges():
            mutant = program.without_edges([edge])
            edges += 1
            if program.ops[edge[0]].kind is OpKind.FORK and not closure_finds(mutant, mutant):
                # A step whose copies overwrite nothing that was read does not need its fork.
                needless += 1
                continue
            with pytest.raises(PlanError, match="expected"):
                verify(mutant)
    assert edges > 500
    assert needless < edges / 20


def test_the_verifier_agrees_with_the_closure_on_damaged_programs():
    generator = random.Random(3)
    damaged = 0
    for case in feasible_cases(70, first=1000, max_layers=3, max_experts=4):
        program = program_of(case)
        assert not closure_finds(program, program)
        for _ in range(3):
            mutant = _damage(program, generator)
            found = bool(list(hazards(mutant, mutant)))
            assert found == closure_finds(mutant, mutant)
            damaged += found
    assert damaged > 50


def _damage(program: Program, generator: random.Random) -> Program:
    edges = list(program.edges())
    mutant = program.without_edges(generator.sample(edges, min(len(edges), generator.randint(0, 2))))
    ops = list(mutant.ops)
    copies = [op.id for op in ops if op.kind is OpKind.COPY]
    if copies and generator.random() < 0.4:
        at = generator.choice(copies)
        slot = generator.randrange(program.slots)
        ops[at] = msgspec.structs.replace(ops[at], slot=slot, writes=(f"slot:{slot}",))
    if generator.random() < 0.3:
        # An extra wait never makes anything wrong.
        at = generator.randrange(1, len(ops))
        ops[at] = msgspec.structs.replace(ops[at], waits=(*ops[at].waits, generator.randrange(at)))
    return msgspec.structs.replace(mutant, ops=tuple(ops))


def test_steps_with_different_plans_follow_each_other_safely():
    (case,) = feasible_cases(1, first=7, max_layers=3)
    instance, _ = case
    plans = [plan for seed in range(60) if (plan := plan_for(instance, seed)) is not None]
    assert len(plans) > 5
    builder = builder_for(instance)
    programs = []
    for plan in plans:
        build_step(builder, instance, plan, copies_by_gate(instance, plan))
        programs.append(builder.program())
    for first, second in pairwise(programs):
        verify(first, second)


def test_wrong_weights_and_double_work_are_named():
    programs = [program_of(case) for case in feasible_cases(30)]
    program = next(program for program in programs if any("slot:0" in op.reads for op in program.ops))
    used = {(op.layer, op.expert) for op in program.ops if op.kind is OpKind.COMPUTE and op.slot is not None}
    at = next(o.id for o in program.ops if o.kind is OpKind.COPY and (o.layer, o.expert) in used)
    ops = list(program.ops)
    ops[at] = msgspec.structs.replace(ops[at], expert=(ops[at].expert or 0) + 1)
    with pytest.raises(PlanError, match="to hold what compute"):
        verify(msgspec.structs.replace(program, ops=tuple(ops)))
    twice = next(op for op in program.ops if op.kind is OpKind.COMPUTE)
    ops = [*program.ops, msgspec.structs.replace(twice, id=len(program.ops))]
    with pytest.raises(PlanError, match="computed once"):
        verify(msgspec.structs.replace(program, ops=tuple(ops)))
    ops = list(program.ops)
    ops[at] = msgspec.structs.replace(ops[at], slot=program.slots)
    with pytest.raises(PlanError, match="slot among"):
        verify(msgspec.structs.replace(program, ops=tuple(ops)))
