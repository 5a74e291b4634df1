"""Predictions on the host's lane: they really run there, hold up host experts only, and failures surface."""

import threading

import pytest
from runtime_cases import feasible_cases, opened

from prescope.formulation import TaskKind, evaluate
from prescope.runtime import ExecutionError, ProgramBuilder, Stepper, run_plan
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.program import OpKind

OPTIONS = {"sim": None, "cpu": CpuOptions(dilation=1.0, drain_s=0.5), "disk": None}


def step(instance, backend, predict):
    """One step without any expert but with a prediction after every gate."""
    builder = ProgramBuilder(
        costs=instance.costs,
        experts=instance.experts,
        slots=instance.slots,
        residents=instance.residents,
        host_computes=instance.host_computes,
    )
    stepper = Stepper(builder, backend)
    stepper.begin_step(batch_tokens=1)
    for layer in range(instance.layers):
        stepper.dense_begin(layer)
        stepper.dense_end()
        stepper.wait(stepper.submit(layer, prediction_ns=5, predict=lambda layer=layer: predict(layer)))
    return stepper.end_step(), stepper.program()


def test_every_prediction_is_done_once_in_order_and_before_the_step_ends(name):
    instance, _ = next(feasible_cases(1, first=7, max_layers=4))
    seen = []
    with opened(instance, name, OPTIONS[name]) as backend:
        trace, program = step(instance, backend, lambda layer: seen.append((layer, threading.get_ident())))
    assert [layer for layer, _ in seen] == list(range(instance.layers))
    assert sum(op.kind is OpKind.PREDICT for op in program.ops) == instance.layers
    assert sum(task.kind is TaskKind.PREDICT for task in trace.schedule.tasks) == instance.layers
    if name != "sim":
        # On a thread of its own, beside the caller.
        assert all(thread != threading.get_ident() for _, thread in seen)


def test_a_prediction_that_fails_ends_the_step_with_its_cause_and_the_next_step_is_right(name):
    instance, _ = next(feasible_cases(1, first=7, max_layers=4))

    def fail(layer):
        raise RuntimeError("no idea")

    with opened(instance, name, OPTIONS[name]) as backend:
        with pytest.raises(ExecutionError, match="no idea"):
            step(instance, backend, fail)
        backend.reset()
        seen = []
        step(instance, backend, seen.append)
        assert seen == list(range(instance.layers))


def test_simulated_predictions_take_the_evaluators_times():
    compared = 0
    for instance, plan in feasible_cases(60, first=3000):
        expected = evaluate(instance, plan)
        assert run_plan(instance, plan).schedule == expected
        compared += any(task.kind is TaskKind.PREDICT for task in expected.tasks)
    assert compared >= 10
