"""Programs are values: hashable, comparable, and the same again after a trip through JSON."""

import json

import pytest
from runtime_cases import feasible_cases, program_of

from prescope.runtime import Op, OpKind, PlanError, Program, Stream


def test_json_trip_keeps_every_program():
    for case in feasible_cases(40):
        program = program_of(case)
        again = Program.from_json(program.to_json())
        assert again == program
        assert hash(again) == hash(program)


def test_waits_name_earlier_operations_only():
    fork = Op(id=0, kind=OpKind.FORK, stream=Stream.CALLER, wave=-1, layer=-1)
    late = Op(id=1, kind=OpKind.DENSE, stream=Stream.CALLER, wave=0, layer=0, waits=(1,))
    with pytest.raises(PlanError, match="a cycle"):
        Program(layers=1, experts=1, slots=0, ops=(fork, late))
    with pytest.raises(PlanError, match="ids 0, 1, 2"):
        Program(layers=1, experts=1, slots=0, ops=(late,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "prescope-program/9"}, "prescope-program/9"),
        ({"colour": 1}, "unknown field"),
        ({"slots": "two"}, "slots"),
    ],
)
def test_a_foreign_file_is_refused_with_the_reason(change, message):
    (case,) = feasible_cases(1)
    document = json.loads(program_of(case).to_json()) | change
    with pytest.raises(PlanError, match=message):
        Program.from_json(json.dumps(document).encode())


def test_truncated_text_is_refused():
    (case,) = feasible_cases(1)
    with pytest.raises(PlanError, match="JSON of a program"):
        Program.from_json(program_of(case).to_json()[:-5])


def test_dropping_an_edge_changes_that_edge_only():
    program = next(program for case in feasible_cases(20) if (program := program_of(case)).edges())
    dropped = program.edges()[0]
    assert set(program.edges()) - set(program.without_edges([dropped]).edges()) == {dropped}


def test_waves_and_streams_partition_the_program():
    for case in feasible_cases(20):
        program = program_of(case)
        assert sum(len(program.stream(stream)) for stream in Stream) == len(program.ops)
        waves = sum(len(program.wave(wave)) for wave in range(-1, program.layers))
        assert waves + program.layers + 1 == len(program.ops)
