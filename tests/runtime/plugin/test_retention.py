"""Residents that change from step to step, in the real plug-in: an independent judge, tokens, faults."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import FAMILY_NAMES, prompts, random_model

from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.instances import write_trace
from prescope.predictor import Oracle
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.plugin import AttachError, attach, expert_bytes, moe_layers
from prescope.runtime.plugin.retention import chosen_by_a_token
from prescope.solver.online import gate_policies
from prescope.solver.residency import GateLearned
from prescope.solver.residency.retentions import retentions

BACKENDS = {
    "sim": {"backend": "sim"},
    "cpu": {"backend": "cpu", "backend_options": CpuOptions(dilation=30.0)},
}


def engine(model, experts=10, slots=3, **kwargs):
    size = expert_bytes(model)[2]
    return attach(model, experts * size, slots=slots, **{"backend": "sim", **kwargs})


def generated(model, inputs, tokens=8):
    return model.generate(**inputs, max_new_tokens=tokens, do_sample=False, eos_token_id=None)


def judged(records):
    """The recorded steps to the evaluator of horizons, which knows nothing of engines."""
    first = records[0].instance
    horizon = Horizon(
        name="engine",
        costs=first.costs,
        demands=tuple(record.instance.demand for record in records),
        residents=first.residents,
        slots=first.slots,
        lookahead=first.lookahead,
    )
    plan = HorizonPlan(
        plans=tuple(record.plan for record in records),
        residents=tuple(record.instance.residents for record in records),
    )
    return evaluate_horizon(horizon, plan)


@pytest.mark.parametrize("policy", gate_policies())
def test_an_engines_steps_are_a_legal_horizon_planned_and_simulated_alike(policy):
    model = random_model(layers=4, experts=8)
    with engine(model, policy=policy) as served:
        for seed in range(2):
            generated(model, prompts(2, 6, seed=seed), tokens=12)
        steps = served.report().steps
        assert [step.planned_ns for step in steps] == [step.simulated_ns for step in steps]
        schedule = judged(served.records)
        assert list(schedule.step_ns) == [step.planned_ns for step in steps]
        assert schedule.uses == served.report().totals().activated
        copied = any(record.plan.transfers for record in served.records)
        assert (served.report().totals().exchanges > 0) == copied
        for before, after in pairwise(served.records):
            rows = [set(row) for row in before.instance.residents]
            for layer, expert, victim in before.exchanges:
                assert before.instance.demand.counts[layer, victim] == 0
                rows[layer] = rows[layer] - {victim} | {expert}
            assert [set(row) for row in after.instance.residents] == rows
        assert served.residents == tuple(tuple(sorted(row)) for row in served.residents)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("retention", retentions())
def test_tokens_are_the_stock_models_whatever_keeps_its_place(retention, backend):
    model = random_model(layers=3, experts=8)
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    inputs = prompts(2, 5)
    expected = generated(model, inputs)
    with engine(model, retention=retention, policy="on-demand", **BACKENDS[backend]) as served:
        assert torch.equal(generated(model, inputs), expected)
        assert torch.equal(generated(model, inputs), expected)
        report = served.report()
        assert report.residency == ("pinned" if retention == "static" else retention)
        assert (report.totals().exchanges > 0) == (retention != "static")
        assert {len(row) for record in served.records for row in record.instance.residents} == {2, 3}
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in weights.items())


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_family_keeps_its_tokens(family):
    model = random_model(family)
    inputs = prompts(2, 5)
    expected = generated(model, inputs)
    with engine(model, experts=8, retention="lru", policy="on-demand") as served:
        assert torch.equal(generated(model, inputs), expected)
        assert served.report().totals().exchanges


def test_retention_saves_time_where_the_same_experts_come_again():
    model = random_model(layers=4, experts=8)
    inputs = prompts(1, 4, padded=False)
    times = {}
    for retention in ("static", "moving-average"):
        # Residents that nobody asks for, so that there is something to gain.
        popularity = np.ones((4, 8)) - np.eye(8)[:4] * 0.5
        with engine(model, retention=retention, policy="dp", popularity=popularity) as served:
            generated(model, inputs, tokens=30)
            times[retention] = served.report().totals().simulated_ns
    assert times["moving-average"] < times["static"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_that_fails_leaves_the_residents_it_began_with(backend):
    model = random_model(layers=3, experts=8)
    inputs = prompts(2, 5)
    expected = generated(model, inputs)
    with engine(model, retention="lru", policy="on-demand", **BACKENDS[backend]) as served:
        generated(model, inputs)
        for layer in (1, 2):
            calls = []

            def failing(*args, calls=calls):
                calls.append(args)
                if len(calls) == 2:
                    raise ArithmeticError("broken layer")

            handle = model.model.layers[layer].register_forward_pre_hook(failing)
            before = []
            steps = len(served.report().steps)
            with pytest.raises(ArithmeticError, match="broken layer"):
                generated(model, inputs)
            handle.remove()
            assert len(served.report().steps) == steps + 1
            before = served.residents
            assert torch.equal(generated(model, inputs), expected)
            # The first step after it began with what the failed one had begun with.
            assert served.records[-8].instance.residents == before
        assert served.report().totals().exchanges


def test_a_pass_that_never_began_a_step_leaves_what_the_last_one_exchanged(monkeypatch):
    model = random_model(layers=3, experts=8)
    exchanged = 0
    for seed in range(3):
        with engine(model, retention="lru", policy="on-demand", predictor="popularity") as served:
            inputs = prompts(2, 5, seed=seed)
            expected = generated(model, inputs, tokens=3)
            exchanged += len(served.records[-1].exchanges)
            before = served.residents
            with monkeypatch.context() as patch:
                patch.setattr(served._predictor, "begin_step", lambda *args, **kwargs: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    model(**inputs)
            assert served.residents == before
            assert torch.equal(generated(model, inputs, tokens=3), expected)
            judged(served.records)
    assert exchanged


@pytest.mark.parametrize("retention", retentions()[1:])
def test_whatever_is_said_of_popularity_residents_adapt(retention):
    model = random_model(layers=3, experts=8)
    inputs = prompts(1, 4, padded=False)
    for popularity in (np.zeros((3, 8)), np.eye(8)[:3], np.full((3, 8), 5e-324)):
        with engine(model, retention=retention, policy="on-demand", popularity=popularity) as served:
            generated(model, inputs, tokens=16)
            assert served.report().totals().exchanges


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.floats(0.0, 1e6), min_size=5, max_size=5), min_size=1, max_size=3),
    st.integers(1, 5),
)
def test_a_token_chooses_so_many_experts_and_each_once(shares, top_k):
    chance = chosen_by_a_token(np.array(shares), top_k)
    assert chance.min() >= 0.0
    assert chance.max() <= 1.0
    assert chance.sum(axis=1) == pytest.approx(np.full(len(shares), top_k))
    for said, row in zip(shares, chance, strict=True):
        assert (np.diff(row[np.argsort(said, kind="stable")]) >= -1e-9).all()


def test_a_token_chooses_in_proportion():
    chance = chosen_by_a_token(np.array([[1.0, 2, 3, 2], [0, 0, 5, 0], [8, 1, 1, 0]]), 2)
    assert chance == pytest.approx(
        np.array([[0.25, 0.5, 0.75, 0.5], [1 / 3, 1 / 3, 1, 1 / 3], [1, 0.5, 0.5, 0]])
    )


def test_with_an_oracle_residents_change_too():
    model = random_model(layers=4, experts=8)
    inputs = prompts(2, 6)
    expected = generated(model, inputs)
    with engine(model, record=True) as first:
        generated(model, inputs)
        counts = first.step_counts()
    with engine(model, policy="dp", predictor=Oracle(steps=counts), retention="lru") as served:
        assert torch.equal(generated(model, inputs), expected)
        assert served.report().totals().exchanges
        judged(served.records)
        assert served.records[0].instance.predicted is None


def test_large_batches_are_left_in_place_by_the_default():
    model = random_model(layers=2, experts=8)
    with engine(model, policy="on-demand") as served:
        generated(model, prompts(16, 3, padded=False), tokens=4)
        assert served.report().totals().exchanges == 0
        generated(model, prompts(1, 3, padded=False), tokens=12)
        assert served.report().totals().exchanges > 0


def test_a_rule_of_ones_own_and_a_deterministic_learned_one():
    model = random_model(layers=3, experts=8)
    made = []
    for _ in range(2):
        rule = GateLearned(np.full((3, 8), 0.25), fixed_ns=10.0, per_token_ns=1.0, every=4, background=False)
        with engine(model, policy="on-demand", retention=rule) as served:
            generated(model, prompts(1, 3, padded=False), tokens=30)
            made.append([record.exchanges for record in served.records])
        assert rule.fits > 2
    assert made[0] == made[1]
    assert any(made[0])


def test_detaching_releases_the_rule(monkeypatch):
    rule, closed = GateLearned(np.full((2, 8), 0.25), fixed_ns=1.0, per_token_ns=1.0), []
    monkeypatch.setattr(rule, "close", lambda: closed.append(True))
    with engine(random_model(layers=2, experts=8), retention=rule):
        assert not closed
    assert closed == [True]


def test_what_was_forecast_is_kept_with_the_step():
    model = random_model(layers=4, experts=8)
    with engine(model, policy="dp", predictor="popularity") as served:
        generated(model, prompts(2, 6), tokens=3)
        record = served.records[-1]
        predicted = record.instance.predicted
        assert predicted.source == "popularity"
        assert predicted.probabilities.shape[1:] == (4, 8)
        assert all(
            np.array_equal(said.probability, predicted.probabilities[0, layer])
            for layer, said in enumerate(record.forecasts)
        )
    with engine(model, policy="on-demand") as served:
        generated(model, prompts(2, 6), tokens=3)
        assert served.records[-1].forecasts == ()


@pytest.mark.parametrize(
    ("retention", "message"),
    [("magic", "expected a retention among static, "), (3, "a retention rule, got int without name")],
)
def test_what_is_no_retention_is_refused(retention, message):
    model = random_model()
    with pytest.raises(AttachError, match=message):
        engine(model, experts=8, retention=retention)
    assert not moe_layers(model)[0].experts.gate_up_proj.is_meta


def test_who_asks_for_pinned_residents_gets_them():
    model = random_model()
    with engine(model, experts=8, residency="pinned") as served:
        assert served.report().residency == "pinned"
    with engine(model, experts=8, residency="pinned", retention="static") as served:
        assert served.report().residency == "pinned"
    with pytest.raises(AttachError, match="pinned or change, got retention 'lru' too"):
        engine(model, experts=8, residency="pinned", retention="lru")
    with pytest.raises(AttachError, match="name their rule with retention"):
        engine(model, experts=8, residency="lru")


def test_a_learned_rule_begins_with_recorded_routing_of_the_same_gates(tmp_path):
    model, other = random_model(layers=3, experts=8), random_model(layers=3, experts=8)
    moe_layers(other)[0].router.weight.data.mul_(-1.0)
    path = str(tmp_path / "routing.npz")
    with engine(model, record=True) as served:
        generated(model, prompts(2, 12, padded=False), tokens=20)
        write_trace(path, served.routing())
    needed = []
    for rows in (1, 4):
        inputs = prompts(rows, 3, padded=False)
        expected = generated(model, inputs, tokens=16)
        with engine(model, retention=f"learned:{path}", policy="on-demand") as served:
            assert torch.equal(generated(model, inputs, tokens=16), expected)
            assert served.report().residency == "learned"
            assert served.report().totals().exchanges
            judged(served.records)
            needed.append(
                sum(
                    record.instance.demand.counts[layer, victim] > 0
                    for record in served.records
                    for layer, _, victim in record.exchanges
                )
            )
    # From two sequences on, residents with tokens give way too.
    assert needed[0] == 0 < needed[1]
    with pytest.raises(AttachError, match="expected routing of gates"):
        engine(other, retention=f"learned:{path}")
    with pytest.raises(AttachError, match="expected 2 layers of 8 experts, got 3 of 8"):
        engine(random_model(layers=2, experts=8), retention=f"learned:{path}")
    with pytest.raises(AttachError, match="of this model to learn retention from in nowhere"):
        engine(model, retention="learned:nowhere.npz")
    with pytest.raises(AttachError, match="or learned:TRACE"):
        engine(model, retention=f"lru:{path}")
    with engine(model, record=True) as served:
        generated(model, prompts(1, 3, padded=False), tokens=2)
        write_trace(path, served.routing())
    with pytest.raises(AttachError, match="a sequence of at least 12 tokens"):
        engine(model, retention=f"learned:{path}")


def test_a_rule_that_says_nonsense_is_named():
    class Nonsense(GateLearned):
        name = "nonsense"

        def scores(self, layer, tokens):
            return np.full(8, np.nan)

    model = random_model(layers=3, experts=8)
    rule = Nonsense(np.full((3, 8), 0.25), fixed_ns=1.0, per_token_ns=1.0)
    with engine(model, policy="on-demand", retention=rule):
        with pytest.raises(ValueError, match="finite scores from retention 'nonsense'"):
            generated(model, prompts(1, 3, padded=False))
    assert torch.isfinite(model(**prompts(1, 3)).logits).all()
