"""Programs and machines for the tests of the runtime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tiny_instances import make_instance, make_plan, seeded

from prescope.formulation import InfeasiblePlanError, Instance, Plan, evaluate
from prescope.runtime import (
    DeviceArena,
    ExecutionError,
    Program,
    compile_plan,
    open_backend,
    synthetic_store,
)
from prescope.runtime.backends import Backend
from prescope.runtime.backends.sim import SimBackend, SimOptions


def feasible_case(seed: int, **limits: int) -> tuple[Instance, Plan] | None:
    """A random instance with a plan, or None when the plan deadlocks; the host predicts in every third."""
    instance = make_instance(seeded(seed), **{"predictions": seed % 3 == 0, **limits})
    plan = plan_for(instance, seed)
    return None if plan is None else (instance, plan)


def plan_for(instance: Instance, seed: int) -> Plan | None:
    """A random plan for an instance, or None when it deadlocks."""
    plan = make_plan(seeded(seed + 10**6), instance)
    try:
        evaluate(instance, plan)
    except InfeasiblePlanError:
        return None
    return plan


def feasible_cases(count: int, *, first: int = 0, **limits: int) -> Iterator[tuple[Instance, Plan]]:
    """As many feasible random cases, from seed `first` on."""
    found, seed = 0, first
    while found < count:
        case = feasible_case(seed, **limits)
        seed += 1
        if case is not None:
            found += 1
            yield case


@contextmanager
def opened(instance: Instance, name: str = "sim", options: object = None, **store: int) -> Iterator[Backend]:
    """A backend with synthetic weights for an instance, closed afterwards."""
    weights = synthetic_store(layers=instance.layers, experts=instance.experts, **store)
    arena = DeviceArena(weights, residents=instance.residents, slots=instance.slots)
    backend = open_backend(name, weights, arena, options)
    try:
        yield backend
    finally:
        backend.close()


def sim_finds(
    instance: Instance, program: Program, options: SimOptions | None = None, steps: int = 2
) -> bool:
    """Whether running a program, each step issued at once, ends in an error."""
    with opened(instance, "sim", options) as backend:
        assert isinstance(backend, SimBackend)
        try:
            backend.replay([program] * steps)
        except ExecutionError:
            return True
    return False


def program_of(case: tuple[Instance, Plan]) -> Program:
    """The compiled program of a case."""
    return compile_plan(*case)
