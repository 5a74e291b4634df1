"""Execute a plan without a model: synthetic weights, every computation checks what it reads."""

from __future__ import annotations

from prescope.formulation import Instance, Plan
from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends import Backend, open_backend
from prescope.runtime.compile import compile_plan
from prescope.runtime.happens_before import verify
from prescope.runtime.program import Op, OpKind, Program, Stream, slot_place
from prescope.runtime.synthetic import synthetic_store
from prescope.runtime.trace import StepTrace


def run_plan(
    instance: Instance, plan: Plan, *, backend: str = "sim", options: object = None, steps: int = 1
) -> StepTrace:
    """Compile, verify and execute a plan; returns the trace of the last step.

    Parameters
    ----------
    instance, plan
        What to execute.
    backend, options
        See `open_backend`.
    steps
        How often the step is run in a row.

    Raises
    ------
    InfeasiblePlanError, PlanError
        When the plan does not fit the instance or its program would not be safe.
    ExecutionError
        When a computation read wrong weights, or anything failed.
    """
    program = compile_plan(instance, plan)
    verify(program)
    store = synthetic_store(layers=instance.layers, experts=instance.experts)
    arena = DeviceArena(store, residents=instance.residents, slots=instance.slots)
    opened = open_backend(backend, store, arena, options)
    try:
        for _ in range(steps):
            trace = execute(opened, program, link_busy_ns=instance.link_ready_ns)
    finally:
        opened.close()
    return trace


def execute(backend: Backend, program: Program, *, link_busy_ns: int = 0) -> StepTrace:
    """Run a program gate by gate as an engine does, with the built-in check as work."""
    backend.begin_step(program.wave(-1), link_busy_ns=link_busy_ns)
    for op in program.ops:
        if op.kind is OpKind.DENSE:
            backend.dense_begin(op)
            backend.dense_end(op)
            backend.wait(backend.submit(program.wave(op.layer)))
    return backend.end_step(program.ops[-1])


def preamble(program: Program) -> Program:
    """A step that only fills the slots as a program expects to find them, for a backend that is fresh."""
    ops = [Op(id=0, kind=OpKind.FORK, stream=Stream.CALLER, wave=-1, layer=-1)]
    for slot, layer, expert in program.initial:
        ops.append(
            Op(
                id=len(ops),
                kind=OpKind.COPY,
                stream=Stream.LINK,
                wave=-1,
                layer=layer,
                expert=expert,
                slot=slot,
                waits=(0,) if len(ops) == 1 else (),
                writes=(slot_place(slot),),
            )
        )
    join = Op(
        id=len(ops),
        kind=OpKind.JOIN,
        stream=Stream.CALLER,
        wave=program.layers,
        layer=program.layers,
        waits=(ops[-1].id,) if len(ops) > 1 else (),
        reads=tuple(slot_place(slot) for slot, _, _ in program.initial),
    )
    return Program(layers=program.layers, experts=program.experts, slots=program.slots, ops=(*ops, join))
