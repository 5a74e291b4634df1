"""Experts on disk: same output, a pool that keeps its promise, and errors that end with the call."""

import gc
from dataclasses import replace

import pytest
import torch
from cost_file_strategies import example_costs
from tiny_models import FAMILY_NAMES, prompts, random_model

from prescope.formulation import CostModel, Link, TaskKind, Tier, evaluate
from prescope.formulation.time_curves import LinearTime
from prescope.predictor import Oracle, StaleGate
from prescope.runtime.control.residency import residencies
from prescope.runtime.plugin import AttachError, attach, moe_layers
from prescope.runtime.plugin.load import load
from prescope.runtime.plugin.stale_router import StaleRouter
from prescope.runtime.profile import fingerprint_of


@pytest.fixture
def saved(tmp_path):
    def save(family="qwen3_moe", **kwargs):
        model = random_model(family, **kwargs)
        model.save_pretrained(tmp_path / family)
        return model, tmp_path / family

    return save


def logits(model, inputs):
    with torch.no_grad():
        return model(**inputs).logits


def generate(model, inputs):
    return model.generate(**inputs, max_new_tokens=6, do_sample=False)


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("memory", ["11KiB", "40KiB", "1GiB"])
def test_output_is_bit_identical_to_the_loaded_model(saved, family, memory):
    model, path = saved(family)
    inputs = prompts(4, 6, padded=False)
    expected = logits(model, inputs)
    with load(path, memory, dtype=torch.float32) as loaded:
        for _ in range(3):
            assert torch.equal(logits(loaded.model, inputs), expected)


@pytest.mark.parametrize("residency", residencies())
@pytest.mark.parametrize("policy", ["on-demand", "presched", "dp", "expected"])
def test_every_rule_serves_the_same_tokens_within_its_rows(saved, residency, policy):
    model, path = saved()
    inputs = prompts(5, 7)
    expected = generate(model, inputs)
    with load(path, "40KiB", policy=policy, dtype=torch.float32, residency=residency) as loaded:
        for _ in range(2):
            assert torch.equal(generate(loaded.model, inputs), expected)
        report = loaded.engine.report()
        assert report.arena_bytes <= report.expert_memory_bytes
        assert (report.backend, report.residency, report.residents) == ("disk", residency, 0)
        totals = report.totals()
        assert totals.simulated_ns is None
        assert totals.executed_ns is not None and totals.executed_ns > 0
        assert totals.cpu_tokens == 0
        copies = 0
        for record in loaded.engine.records:
            assert record.instance.tier is Tier.DISK
            assert evaluate(record.instance, record.plan) == record.planned
            copies += len(record.plan.transfers)
        assert loaded.store.reads == copies


def test_a_pool_that_fits_reads_every_expert_once_and_keeps_it(saved):
    model, path = saved(layers=2, experts=4)
    inputs = prompts(8, 8, padded=False)
    with load(path, "1GiB", policy="on-demand", dtype=torch.float32) as loaded:
        logits(loaded.model, inputs)
        first = loaded.store.reads
        for _ in range(3):
            logits(loaded.model, inputs)
        assert loaded.store.reads == first <= 8
        assert loaded.engine.report().steps[-1].hits == loaded.engine.report().steps[-1].activated


def test_a_failed_read_ends_the_call_and_the_next_one_is_right(saved):
    model, path = saved()
    inputs = prompts(3, 5, padded=False)
    expected = logits(model, inputs)
    with load(path, "40KiB", dtype=torch.float32) as loaded:
        assert torch.equal(logits(loaded.model, inputs), expected)
        read, calls = loaded.store.read, []

        def failing(layer, expert, row):
            calls.append((layer, expert))
            if len(calls) == 2:
                raise OSError(5, "Input/output error")
            return read(layer, expert, row)

        loaded.store.read = failing
        with pytest.raises(RuntimeError, match="Input/output error"):
            for _ in range(5):
                logits(loaded.model, inputs)
        for _ in range(3):
            assert torch.equal(logits(loaded.model, inputs), expected)


def test_memory_stays_flat_over_many_passes(saved):
    _, path = saved()
    inputs = prompts(2, 4)
    with load(path, "40KiB", dtype=torch.float32) as loaded:

        def tensors():
            gc.collect()
            return sum(1 for item in gc.get_objects() if type(item) is torch.Tensor)

        for _ in range(5):
            generate(loaded.model, inputs)
        before = tensors()
        for _ in range(20):
            generate(loaded.model, inputs)
        assert tensors() <= before


def some_costs(layers, tier_host=False):
    return CostModel(
        expert_bytes=(6144,) * layers,
        link=Link(bytes_per_s=10**9),
        gpu=(LinearTime(fixed_ns=1000),),
        cpu=(LinearTime(fixed_ns=0),),
        dense=(LinearTime(fixed_ns=1000),),
        source="a test",
    )


def test_given_costs_are_planned_with_and_drift_is_noticed(saved):
    _, path = saved()
    with load(path, "40KiB", dtype=torch.float32, costs=some_costs(3)) as loaded:
        inputs = prompts(2, 4)
        for _ in range(40):
            logits(loaded.model, inputs)
        report = loaded.engine.report()
    assert report.preset == "a test"
    # No machine computes a layer in two microseconds.
    assert any("times the planned time" in text for text in report.degraded)


@pytest.mark.parametrize(
    ("policy", "read_bytes_per_s", "lookahead"),
    [("expected", 10**9, 0), ("dp", 10**9, 0), ("expected", 10**6, 2), ("dp", 10**6, 1)],
)
def test_the_default_lookahead_is_none_where_a_measured_read_is_faster_than_a_forecast(
    saved, policy, read_bytes_per_s, lookahead
):
    model, path = saved()
    measured = replace(
        example_costs(),
        costs=replace(some_costs(3), link=Link(bytes_per_s=read_bytes_per_s)),
        fingerprint=fingerprint_of(model),
        series=(),
    )
    with load(path, "40KiB", dtype=torch.float32, costs=measured, policy=policy) as loaded:
        assert loaded.engine.report().lookahead == lookahead
        generate(loaded.model, prompts(1, 4))
        ahead = [copy for record in loaded.engine.records for copy in record.plan.transfers]
        assert lookahead or all(copy.layer == copy.gate for copy in ahead)
    # What was not measured says nothing about how fast reads are.
    with load(path, "40KiB", dtype=torch.float32, policy=policy) as loaded:
        assert loaded.engine.report().lookahead == (2 if policy == "expected" else 1)


class Charged(StaleGate):
    """A stale gate that says what its forecasts take."""

    def cost_ns(self, layer, tokens):
        return 30_000 * tokens


@pytest.mark.parametrize("policy", ["on-demand", "dp", "expected"])
def test_predictions_are_charged_in_plan_and_execution(saved, policy):
    model, path = saved()
    inputs = prompts(2, 4)
    expected = generate(model, inputs)
    router = StaleRouter(moe_layers(model))
    predictor = Charged(layers=3, experts=6, top_k=2, router=router)
    with load(path, "40KiB", dtype=torch.float32, policy=policy, predictor=predictor) as loaded:
        assert torch.equal(generate(loaded.model, inputs), expected)
        for record in loaded.engine.records:
            assert record.instance.prediction_ns == (30_000 * record.tokens,) * 3
            assert evaluate(record.instance, record.plan) == record.planned
            executed = [task.kind for task in record.trace.schedule.tasks]
            assert executed.count(TaskKind.PREDICT) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backend": "cpu"}, "expected backend 'disk' for experts on disk"),
        ({"slots": 4}, "expected no slots for experts on disk"),
        ({"residency": "fifo"}, "expected a residency among static"),
        ({"expert_memory": 100}, "which is one expert, got 100 B"),
        ({"policy": "magic"}, "expected a policy among"),
        ({"predictor": "oracle"}, "expected a recorded pass"),
        ({"preset": "qwen3-30b-a3b@a100-pcie4"}, "expected a cost model of the disk tier"),
        ({"costs": some_costs(2)}, "expected costs of 3 layers, got 2"),
        ({"costs": "missing.json"}, "missing.json"),
    ],
    ids=str,
)
def test_requests_that_cannot_be_honoured_are_refused(saved, arguments, message):
    _, path = saved()
    with pytest.raises(AttachError, match=message):
        load(path, **{"expert_memory": "40KiB", "dtype": torch.float32, **arguments})


def test_an_oracle_object_is_refused_and_models_in_memory_have_no_pool(saved):
    model, path = saved()
    steps = [torch.zeros(3, 6, dtype=torch.int64).numpy()]
    with pytest.raises(AttachError, match="other than 'oracle'"):
        load(path, "40KiB", dtype=torch.float32, predictor=Oracle(steps=steps))
    with pytest.raises(AttachError, match=r"use prescope\.load"):
        attach(model, "40KiB", backend="disk")
    with pytest.raises(AttachError, match="residency 'pinned'"):
        attach(model, "40KiB", backend="sim", residency="lru")
