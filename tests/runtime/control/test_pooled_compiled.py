"""Compiled control over a pool against the plain one: the same waves, contents and trust, step after step."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_instances import make_instance, seeded

from prescope.formulation import Tier, evaluate
from prescope.formulation.forecast import Forecast
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.pooled import PooledStep
from prescope.runtime.control.pooled_compiled import CompiledPooledStep, pooled_step
from prescope.runtime.control.residency import make_residency, residencies
from prescope.runtime.control.tables import CostTables
from prescope.solver.online import ExpectedPolicy, SplitPolicy, gate_policies, make_gate_policy, policy_code

COMPILED = [name for name in gate_policies() if policy_code(make_gate_policy(name)) is not None]


class Steps:
    """Steps in a row over one pool with one kind of control."""

    def __init__(self, kind, seed, *, policy, residency, rows, charged, good):
        instance = make_instance(seeded(seed), host=False)
        self.instance = replace(instance, tier=Tier.DISK, link_ready_ns=0)
        shape = self.instance.demand.counts.shape
        popularity = np.random.default_rng(seed).random(shape)
        self.pool = RowPool(rows, make_residency(residency, popularity, rows=rows, scratch=2))
        self.kind, self.policy, self.good = kind, policy, good
        self.random = np.random.default_rng([seed, 1])
        self.prediction_ns = tuple(self.random.integers(0, 3, shape[0]).tolist()) if charged else ()

    def step(self):
        """Waves of the next step, and the decided step."""
        counts = self.random.permuted(self.instance.demand.counts, axis=1)
        noise = self.random.random((counts.shape[0], *counts.shape))

        def forecast(layer, horizon):
            probability = noise[horizon - 1, layer + horizon]
            if self.good:
                probability = 0.2 * probability + 0.8 * (counts[layer + horizon] > 0)
            return Forecast(expected_tokens=probability * 2, probability=probability)

        step = self.kind(
            costs=self.instance.costs,
            tables=CostTables(self.instance.costs),
            pool=self.pool,
            lookahead=3,
            policy=self.policy,
            forecast=forecast,
            tokens=self.instance.demand.batch_tokens,
            experts=self.instance.experts,
            prediction_ns=self.prediction_ns,
        )
        waves = [step.start(), *(step.gate(layer, row) for layer, row in enumerate(counts))]
        return [replace(wave, predict=None) for wave in waves], step.finish()


@pytest.mark.parametrize("name", COMPILED)
@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    residency=st.sampled_from(residencies()),
    rows=st.integers(1, 14),
    charged=st.booleans(),
    good=st.booleans(),
    resting=st.booleans(),
)
def test_compiled_control_of_a_pool_is_the_plain_one(name, seed, residency, rows, charged, good, resting):
    options = {"residency": residency, "rows": rows, "charged": charged, "good": good}
    plain = Steps(PooledStep, seed, policy=make_gate_policy(name), **options)
    compiled = Steps(CompiledPooledStep, seed, policy=make_gate_policy(name), **options)
    for steps in (plain, compiled):
        steps.pool.trust_ns[:] = 0.0, -1000.0 * resting, 0.0, resting
    for _ in range(4):
        assert compiled.step() == plain.step()
        assert (compiled.pool.owners == plain.pool.owners).all()
        assert (compiled.pool.places == plain.pool.places).all()
        assert compiled.pool.trust_ns == pytest.approx(plain.pool.trust_ns, rel=1e-12, abs=1e-9)
        assert (compiled.pool.pushed_out == plain.pool.pushed_out).all()


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 14), charged=st.booleans())
def test_its_clock_is_never_ahead_of_the_evaluators(seed, rows, charged):
    steps = Steps(
        CompiledPooledStep,
        seed,
        policy=make_gate_policy("expected"),
        residency="moving-average",
        rows=rows,
        charged=charged,
        good=True,
    )
    for _ in range(3):
        _, (instance, plan) = steps.step()
        assert plan.info.makespan_ns >= evaluate(instance, plan).makespan_ns
        assert instance.prediction_ns == steps.prediction_ns


def test_with_rows_for_all_the_clock_is_the_evaluators():
    for seed in range(200):
        steps = Steps(
            CompiledPooledStep,
            seed,
            policy=make_gate_policy("expected"),
            residency="lru",
            rows=40,
            charged=True,
            good=True,
        )
        for _ in range(2):
            _, (instance, plan) = steps.step()
            assert plan.info.makespan_ns == evaluate(instance, plan).makespan_ns


def test_a_policy_without_a_compiled_form_runs_plain():
    class Other(SplitPolicy):
        pass

    options = {"residency": "lru", "rows": 6, "charged": False, "good": True}
    with pytest.raises(ValueError, match="expected a policy with a compiled form, got 'other'"):
        Steps(CompiledPooledStep, 1, policy=Other("other", ahead=1), **options).step()
    assert Steps(pooled_step, 1, policy=Other("other", ahead=1), **options).step()
    assert isinstance(_made(ExpectedPolicy()), CompiledPooledStep)
    assert isinstance(_made(make_gate_policy("fate")), PooledStep)


def _made(policy):
    steps = Steps(pooled_step, 1, policy=policy, residency="lru", rows=6, charged=False, good=True)
    made = []
    steps.kind = lambda **options: made.append(pooled_step(**options)) or made[0]
    steps.step()
    return made[0]
