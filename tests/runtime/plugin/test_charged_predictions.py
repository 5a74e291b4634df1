"""Predictions that take the host time: charged in plan, simulation and execution; tokens stay the same."""

import threading

import pytest
import torch
from tiny_models import prompts, random_model

from prescope.formulation import TaskKind, evaluate
from prescope.predictor import StaleGate
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.plugin import attach, expert_bytes, moe_layers
from prescope.runtime.plugin.stale_router import StaleRouter

BACKENDS = {
    "sim": {"backend": "sim"},
    "cpu": {"backend": "cpu", "backend_options": CpuOptions(dilation=20.0)},
}


class Charged:
    """A stale gate that says what it costs and keeps who asked when."""

    def __init__(self, inner, cost_ns):
        self._inner, self._cost_ns = inner, cost_ns
        self.calls = []
        self.name = "charged"

    def cost_ns(self, layer, tokens):
        return self._cost_ns * tokens if layer + 1 < 4 else 0

    def known_counts(self):
        return None

    def begin_step(self, tokens, **rows):
        self.calls.append(("begin", -1, threading.get_ident()))
        self._inner.begin_step(tokens, **rows)

    def observe(self, layer, hidden, indices, weights):
        self.calls.append(("observe", layer, threading.get_ident()))
        self._inner.observe(layer, hidden, indices, weights)

    def predict(self, layer, horizon):
        self.calls.append(("predict", layer, threading.get_ident()))
        return self._inner.predict(layer, horizon)


def run(backend, cost_ns):
    model = random_model(layers=4, experts=8)
    inputs = prompts(2, 4)
    with torch.no_grad():
        wanted = model.generate(**inputs, max_new_tokens=6, do_sample=False)
    router = StaleRouter(moe_layers(model))
    predictor = Charged(StaleGate(layers=4, experts=8, top_k=2, router=router), cost_ns)
    options = {"slots": 3, "policy": "dp", "predictor": predictor, **BACKENDS[backend]}
    with attach(model, 10 * expert_bytes(model)[2], **options) as engine:
        predictor.calls.clear()
        with torch.no_grad():
            got = model.generate(**inputs, max_new_tokens=6, do_sample=False)
        assert torch.equal(wanted, got)
        return predictor, engine.report(), engine.records


@pytest.mark.parametrize("backend", BACKENDS)
def test_predictions_are_made_in_order_and_every_account_charges_them(backend):
    predictor, _, records = run(backend, cost_ns=40_000)
    for record in records:
        wanted = tuple(40_000 * record.tokens * (layer < 3) for layer in range(4))
        assert record.instance.prediction_ns == wanted
        predicted = [task for task in record.planned.tasks if task.kind is TaskKind.PREDICT]
        assert len(predicted) == 3
        assert sum(task.kind is TaskKind.PREDICT for task in record.trace.schedule.tasks) == 3
        assert evaluate(record.instance, record.plan) == record.planned
        if backend == "sim":
            assert record.trace.schedule == record.planned
    # A gate's forecasts are made after it is observed and before the next one is.
    at = -1
    for kind, layer, _ in predictor.calls:
        if kind == "predict":
            assert layer == at
        else:
            at = layer
    if backend == "cpu":
        beside = {thread for kind, layer, thread in predictor.calls if kind == "predict" and layer >= 0}
        assert beside - {threading.get_ident()}


def test_a_dear_prediction_makes_the_step_longer():
    _, cheap, _ = run("sim", cost_ns=0)
    _, dear, records = run("sim", cost_ns=5_000_000)
    assert all(record.instance.prediction_ns for record in records)
    assert sum(step.planned_ns for step in dear.steps) > sum(step.planned_ns for step in cheap.steps)
