"""Attach, detach, and what an engine does with weights, errors and records."""

import gc
import threading
import weakref
from itertools import pairwise

import numpy as np
import pytest
import torch
from tiny_models import FAMILY_NAMES, prompts, random_model

from prescope.formulation import Lane, makespan_ns
from prescope.predictor import Oracle
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.plugin import AttachError, attach, expert_bytes, moe_layers
from prescope.solver.online import gate_policies


def engine(model, experts=8, slots=3, **kwargs):
    size = expert_bytes(model)[2]
    return attach(model, experts * size, slots=slots, **{"backend": "sim", **kwargs})


def logits(model, inputs):
    with torch.no_grad():
        return model(**inputs).logits


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_detach_restores_the_model_exactly(family):
    model = random_model(family)
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    hooks = len(model.base_model._forward_hooks), len(model.base_model._forward_pre_hooks)
    attributes = set(vars(model))
    served = engine(model)
    for layer in moe_layers(model):
        assert layer.experts.gate_up_proj.is_meta
        assert layer.experts.down_proj.is_meta
    logits(model, prompts(2, 4))
    served.detach()
    served.detach()
    assert all(row.is_meta for row in served.serving.store.rows)
    assert list(model.state_dict()) == list(weights)
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in weights.items())
    assert hooks == (len(model.base_model._forward_hooks), len(model.base_model._forward_pre_hooks))
    assert set(vars(model)) == attributes
    assert model.config._experts_implementation == "eager"
    with engine(model):
        pass


def test_the_host_store_is_the_only_copy_of_the_experts():
    model = random_model(layers=2, experts=12)
    held = weakref.ref(model.model.layers[1].mlp.experts.gate_up_proj)
    with engine(model) as served:
        gc.collect()
        assert held() is None
        in_model = sum(
            weight.numel()
            for name, weight in model.named_parameters()
            if ".experts." in name and not weight.is_meta
        )
        assert in_model == 0
        assert sum(row.numel() for row in served.serving.store.rows) == 2 * 12 * 3 * 16 * 32


def affected_tokens(model, inputs, before):
    return {tuple(place) for place in (logits(model, inputs) != before).any(dim=-1).nonzero().tolist()}


BACKENDS = {
    "sim": {"backend": "sim"},
    "cpu": {"backend": "cpu", "backend_options": CpuOptions(dilation=30.0)},
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_altering_a_slot_after_its_copy_changes_exactly_the_affected_tokens(backend):
    # One layer, so that a changed token cannot reach others through attention.
    model = random_model(layers=1, experts=8)
    inputs = prompts(4, 5, padded=False)
    options = {"policy": "on-demand", "experts": 8, "slots": 8, "record": True}
    with engine(model, **options, **BACKENDS[backend]) as served:
        before = logits(model, inputs)
        ids = served.routing().topk_ids[:, 0]
        backend = served.serving.backend
        submit, altered = backend.submit, []

        def alter_after_copy(ops, work=None, predict=None):
            copies = [op for op in ops if op.kind == "copy"]
            victim = copies[-1]

            def spoiled(weights):
                weights["down_proj"].mul_(1.5)
                work[victim.expert](weights)

            altered.append(victim.expert)
            return submit(ops, {**work, victim.expert: spoiled}, predict)

        backend.submit = alter_after_copy
        changed = affected_tokens(model, inputs, before)
        backend.submit = submit
        expert = altered[0]
        assert changed == {
            (token // 5, token % 5) for token in np.flatnonzero((ids == expert).any(axis=1)).tolist()
        }
        assert changed
        # The next step copies the expert again: nothing of the alteration is left.
        assert torch.equal(logits(model, inputs), before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_altering_the_host_store_of_a_resident_changes_nothing(backend):
    model = random_model(layers=2, experts=4)
    inputs = prompts(4, 5, padded=False)
    with engine(model, policy="on-demand", experts=6, slots=2, **BACKENDS[backend]) as served:
        before = logits(model, inputs)
        layer, expert = next(
            (layer, row[0]) for layer, row in enumerate(served.settings.residents) if len(row)
        )
        row = served.serving.store.row(layer, expert)
        kept = row.clone()
        row.mul_(3)
        assert torch.equal(logits(model, inputs), before)
        # And of an expert that must be copied, it does change something.
        missing = next(e for e in range(4) if e not in served.settings.residents[layer])
        other = served.serving.store.row(layer, missing)
        other.mul_(3)
        assert not torch.equal(logits(model, inputs), before)
        other.div_(3)
        row.copy_(kept)


@pytest.mark.parametrize("policy", gate_policies())
def test_planned_and_simulated_agree_to_the_nanosecond(policy):
    model = random_model(layers=4, experts=8)
    with engine(model, policy=policy, record=True) as served:
        model.generate(**prompts(5, 6), max_new_tokens=6, do_sample=False)
        report = served.report()
        assert [step.planned_ns for step in report.steps] == [step.simulated_ns for step in report.steps]
        for record, counts in zip(served.records, served.step_counts(), strict=True):
            assert record.trace.makespan_ns == makespan_ns(record.instance, record.plan)
            assert record.instance.demand.counts.tolist() == counts.tolist()
    totals = report.totals()
    assert totals.tokens == sum(step.tokens for step in report.steps)
    assert totals.executed_ns is None
    assert totals.gpu_tokens + totals.cpu_tokens == 2 * 4 * totals.tokens
    assert totals.steps == report.totals("prefill").steps + report.totals("decode").steps
    assert totals.hits <= totals.activated
    copies = sum(len(record.plan.transfers) for record in served.records)
    assert totals.bytes_moved == copies * served.settings.costs.expert_bytes[0]


@pytest.mark.parametrize("method", ["on-demand", "cpu-only", "intra-layer", "presched", "dp"])
def test_with_an_oracle_whole_steps_are_planned_by_a_solver(method):
    model = random_model(layers=4, experts=8)
    inputs = prompts(4, 6)
    expected = model.generate(**inputs, max_new_tokens=5, do_sample=False)
    with engine(model, record=True) as first:
        model.generate(**inputs, max_new_tokens=5, do_sample=False)
        counts, trace = first.step_counts(), first.routing()
    known = Oracle.from_trace(trace) if method == "dp" else Oracle(steps=counts)
    with engine(model, policy=method, predictor=known) as served:
        assert torch.equal(model.generate(**inputs, max_new_tokens=5, do_sample=False), expected)
        report = served.report()
        assert report.predictor == "oracle"
        assert report.lookahead == 4
        assert [step.planned_ns for step in report.steps] == [step.simulated_ns for step in report.steps]
        assert report.totals().prefetch_wasted == 0
        with pytest.raises(ValueError, match="as many as were recorded"):
            logits(model, inputs)


def test_the_recorded_routing_is_what_the_routers_said():
    model = random_model()
    inputs = prompts(3, 5)
    seen = [[] for _ in range(3)]
    handles = [
        layer.router.register_forward_hook(lambda m, a, out, i=index: seen[i].append(out[2].clone()))
        for index, layer in enumerate(moe_layers(model))
    ]
    with engine(model, record="hidden") as served:
        for handle_list in seen:
            handle_list.clear()
        logits(model, inputs)
        trace = served.routing(source="a test")
    for handle in handles:
        handle.remove()
    real = inputs["attention_mask"].reshape(-1).bool()
    for layer in range(3):
        assert trace.topk_ids[:, layer].tolist() == seen[layer][0][real].tolist()
    assert trace.seq_offsets.tolist() == [0, 5, 9, 12]
    assert trace.hidden.shape == (12, 3, 32)
    assert trace.token_ids.tolist() == inputs["input_ids"].reshape(-1)[real].tolist()
    assert trace.meta.experts == 6
    with engine(model) as silent, pytest.raises(ValueError, match="record=True"):
        silent.step_counts()


def test_an_error_inside_a_step_leaves_the_engine_usable():
    model = random_model()
    inputs = prompts(3, 5, padded=False)
    before = logits(model, inputs)
    with engine(model) as served:
        backend, calls = served.serving.backend, []
        submit = backend.submit

        def failing(ops, work=None, predict=None):
            calls.append(ops)
            if len(calls) == 2:
                expert = next(op.expert for op in ops if op.kind == "compute")

                def broken(weights):
                    raise ArithmeticError("broken expert")

                work = {**work, expert: broken}
            return submit(ops, work, predict)

        backend.submit = failing
        with pytest.raises(RuntimeError, match="broken expert"):
            logits(model, inputs)
        assert torch.equal(logits(model, inputs), before)
        # An error of the model's own, between two layers.
        handle = model.model.layers[1].register_forward_pre_hook(lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            logits(model, inputs)
        handle.remove()
        assert torch.equal(logits(model, inputs), before)
        assert len(served.report().steps) == 2
    assert torch.equal(logits(model, inputs), before)


def test_gradients_and_concurrent_passes_are_refused():
    model = random_model()
    inputs = prompts(2, 4)
    with engine(model):
        with pytest.raises(RuntimeError, match="expected inference"):
            model(**inputs)
        errors = []

        def second_pass(*args):
            thread = threading.Thread(target=lambda: errors.append(_error(lambda: logits(model, inputs))))
            thread.start()
            thread.join()

        handle = model.model.layers[1].register_forward_pre_hook(second_pass)
        logits(model, inputs)
        handle.remove()
        assert "one forward pass at a time" in str(errors[0])
        assert torch.isfinite(logits(model, inputs)).all()


def _error(call):
    try:
        call()
    except RuntimeError as error:
        return error
    return None


def test_a_sibling_that_shares_the_config_keeps_its_stock_behaviour():
    model = random_model()
    sibling = type(model)(model.config).eval()
    inputs = prompts(2, 4, padded=False)
    before = logits(sibling, inputs)
    with engine(model):
        assert torch.equal(logits(sibling, inputs), before)
        with pytest.raises(AttachError, match="config of its own"):
            engine(sibling)
        assert torch.equal(logits(sibling, inputs), before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "magic"}, "expected a policy among on-demand"),
        ({"backend": "tpu"}, "expected a backend among sim, cpu"),
        ({"preset": "gpt-5@a100-pcie4"}, "expected a model among mixtral-8x7b"),
        ({"preset": "nonsense"}, "form 'model@machine'"),
        ({"predictor": "crystal-ball"}, "expected a predictor among .*oracle"),
        ({"predictor": "oracle"}, "expected a recorded pass"),
        ({"expert_memory": "lots"}, "expected an amount of memory such as"),
        ({"expert_memory": 100}, "expected expert_memory of at least"),
        ({"slots": -1}, "expected slots to be an integer >= 0"),
        ({"slots": 10**6}, "expected expert_memory of at least"),
        ({"lookahead": -1}, "expected lookahead"),
        ({"popularity": np.ones((2, 2))}, "expected finite popularity"),
        ({"popularity": np.full((3, 6), np.nan)}, "expected finite popularity"),
        ({"record": "everything"}, "expected record to be"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_requests_that_cannot_be_honoured_are_refused_and_change_nothing(arguments, message):
    model = random_model()
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    attributes = set(vars(model))
    full = {"expert_memory": 8 * expert_bytes(model)[2], "backend": "sim", **arguments}
    with pytest.raises(AttachError, match=message):
        attach(model, **full)
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in weights.items())
    assert set(vars(model)) == attributes
    assert model.config._experts_implementation == "eager"


def test_models_that_cannot_be_served_are_refused_with_the_reason():
    from transformers import GPT2Config, GPT2LMHeadModel

    dense = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=64))
    with pytest.raises(AttachError, match=r"families qwen3_moe, mixtral, olmoe, got model_type='gpt2'"):
        attach(dense, "1MiB")
    with pytest.raises(AttachError, match="expected a transformers model, got str"):
        attach("Qwen/Qwen3-30B-A3B", "1MiB")
    model = random_model()
    with engine(model), pytest.raises(AttachError, match="detach it first"):
        engine(model)
    hooked = random_model()
    hooked.model.layers[0]._hf_hook = object()
    with pytest.raises(AttachError, match="accelerate hooks"):
        engine(hooked)
    mixed = random_model()
    mixed.model.layers[1].mlp.experts.down_proj = torch.nn.Parameter(torch.ones(6, 32, 17))
    with pytest.raises(AttachError, match="expected equal experts in all layers"):
        engine(mixed)
    double = random_model(dtype=torch.float64)
    with pytest.raises(AttachError, match="float32, bfloat16 or float16"):
        engine(double)
    quantised = random_model()
    quantised.config.quantization_config = {"quant_method": "fp8"}
    with pytest.raises(AttachError, match="unquantised"):
        engine(quantised)


def test_steps_follow_each_other_as_prefill_and_decode_with_the_link_as_they_left_it():
    model = random_model(layers=4, experts=8)
    with engine(model, slots=8, experts=10, predictor="popularity") as served:
        for seed in range(6):
            model.generate(**prompts(3, 6, seed=seed), max_new_tokens=4, do_sample=False, eos_token_id=None)
        assert [step.phase for step in served.report().steps] == ["prefill", *["decode"] * 3] * 6
        busy = []
        for before, after in pairwise(served.records):
            last_ns = max((task.end_ns for task in before.planned.lane(Lane.LINK)), default=0)
            busy.append(max(0, last_ns - before.planned.makespan_ns))
            assert after.instance.link_ready_ns == busy[-1]
        assert any(busy)
