"""A compiled program as a view: one step of it in virtual time, and its operations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from prescope.formulation import Schedule
from prescope.inspection.view import StepView, View, ViewKind, ViewTable
from prescope.runtime.program import OpKind, Program, Stream


def program_view(path: Path) -> View:
    """View of a file of `Program.to_json`.

    Raises
    ------
    PlanError
        A ``ValueError``: when it is no program, or one that is not safe to run.
    """
    program = Program.from_json(path.read_bytes())
    schedule = simulate(program)
    waits = sum(len(op.waits) for op in program.ops)
    return View(
        kind=ViewKind.PROGRAM,
        path=str(path),
        title=path.name,
        facts={
            "layers": program.layers,
            "experts": program.experts,
            "slots": program.slots,
            "operations": len(program.ops),
            "waits": waits,
            "simulated_ns": schedule.makespan_ns,
        },
        provenance={"times": "simulated: operations of the modelled length in virtual time"},
        steps=(StepView(name=path.name, schedules={"simulated": schedule}),),
        tables=(_operations(program), _in_full(program)),
    )


def simulate(program: Program) -> Schedule:
    """One step of a program in virtual time, after whatever must be in its slots has been brought there."""
    from prescope.runtime.arena import DeviceArena
    from prescope.runtime.backends import open_backend
    from prescope.runtime.execution import execute, preamble
    from prescope.runtime.happens_before import verify
    from prescope.runtime.synthetic import synthetic_store

    verify(program)
    residents = tuple(
        tuple(
            sorted(
                op.expert
                for op in program.ops
                if op.kind is OpKind.COMPUTE
                and op.stream is Stream.GPU
                and op.slot is None
                and op.layer == layer
                and op.expert is not None
            )
        )
        for layer in range(program.layers)
    )
    store = synthetic_store(layers=program.layers, experts=program.experts)
    backend = open_backend("sim", store, DeviceArena(store, residents=residents, slots=program.slots), None)
    try:
        if program.initial:
            execute(backend, preamble(program))
        return execute(backend, program).schedule
    finally:
        backend.close()


def _operations(program: Program) -> ViewTable:
    kinds = Counter((op.stream.value, op.kind.value) for op in program.ops)
    waits: Counter[tuple[str, str]] = Counter()
    for op in program.ops:
        waits[op.stream.value, op.kind.value] += len(op.waits)
    return ViewTable(
        title="operations",
        columns=("stream", "kind", "number", "waits"),
        rows=tuple((*key, number, waits[key]) for key, number in sorted(kinds.items())),
    )


def _in_full(program: Program) -> ViewTable:
    return ViewTable(
        title="in order",
        columns=("id", "wave", "stream", "kind", "layer", "expert", "slot", "waits", "length_ns"),
        rows=tuple(
            (
                op.id,
                op.wave,
                op.stream.value,
                op.kind.value,
                op.layer,
                op.expert,
                op.slot,
                " ".join(map(str, op.waits)),
                op.predicted_ns,
            )
            for op in program.ops
        ),
    )
