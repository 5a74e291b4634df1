"""The simulated backend finds ordering bugs by running into them, without the static verifier."""

from runtime_cases import feasible_cases, program_of, sim_finds

from prescope.runtime import Op, OpKind, Program
from prescope.runtime.backends.delays import Delay, swarm_speeds
from prescope.runtime.backends.sim import SimOptions
from prescope.runtime.happens_before import hazards


def harmful_mutants(count, first):
    """Programs that lack one wait and are wrong for it, with that wait."""
    for instance, plan in feasible_cases(count, first=first):
        program = program_of((instance, plan))
        assert not sim_finds(instance, program)
        for edge in program.edges():
            mutant = program.without_edges([edge])
            if any(hazards(mutant, mutant)):
                yield instance, mutant, edge


def directed(mutant: Program, edge: tuple[int, int]) -> list[SimOptions]:
    """Ways to make what the lost wait waited for very late."""
    waited_for = mutant.ops[edge[0]]
    if waited_for.kind is not OpKind.FORK:
        return [SimOptions(delays=(late(waited_for, None, 10**6),))]
    # The fork stands for each reader of the step before. The repeated copies bring the same weights, so they
    # are seen only while they are under way.
    readers = [op for op in mutant.ops if op.kind is OpKind.COMPUTE and op.slot is not None]
    copies = tuple(late(op, 1, 10**3) for op in mutant.ops if op.kind is OpKind.COPY)
    return [SimOptions(delays=(late(reader, 0, 10**6), *copies)) for reader in readers]


def late(op: Op, step: int | None, extra_ns: int) -> Delay:
    return Delay(kind=op.kind, layer=op.layer, expert=op.expert, extra_ns=extra_ns, step=step)


def test_a_directed_delay_finds_every_lost_wait():
    mutants = 0
    for instance, mutant, edge in harmful_mutants(120, first=0):
        assert any(sim_finds(instance, mutant, options) for options in directed(mutant, edge)), edge
        mutants += 1
    assert mutants > 400


def test_random_speeds_find_nearly_all_lost_waits():
    found = mutants = 0
    for instance, mutant, _ in harmful_mutants(60, first=500):
        mutants += 1
        found += any(sim_finds(instance, mutant, SimOptions(speeds=swarm_speeds(seed))) for seed in range(12))
    assert found >= 0.95 * mutants
    assert mutants > 200


def test_correct_programs_survive_directed_delays():
    for instance, plan in feasible_cases(30, first=900):
        program = program_of((instance, plan))
        for edge in program.edges():
            for options in directed(program, edge):
                assert not sim_finds(instance, program, options)
