"""Which row makes way, on pools small enough to say."""

import numpy as np
import pytest

from prescope.formulation import CostModel, Link
from prescope.formulation.forecast import Forecast
from prescope.formulation.time_curves import LinearTime
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.pooled import PooledStep
from prescope.runtime.control.residency import ForwardDistanceResidency, make_residency
from prescope.runtime.control.tables import CostTables
from prescope.solver.online import make_gate_policy

EXPERTS = 3
# A copy takes 100 ns, an expert 1000 ns.
COSTS = CostModel(
    expert_bytes=(100, 100),
    link=Link(bytes_per_s=10**9),
    gpu=(LinearTime(fixed_ns=1000),),
    cpu=(LinearTime(fixed_ns=0),),
    dense=(LinearTime(fixed_ns=150),),
    source="a test",
)


def lru_pool(*contents, used):
    """A pool that holds ``contents`` in order; ``used`` are uses so far, oldest first."""
    pool = RowPool(
        len(contents), make_residency("lru", np.zeros((2, EXPERTS)), rows=len(contents), scratch=1)
    )
    for row, key in enumerate(contents):
        pool.put(row, key)
    for layer, expert in used:
        pool.residency.observe(layer, np.eye(EXPERTS, dtype=np.int64)[expert])
    return pool


def first_gate(pool, policy, *, active, likely=(0, 0, 0)):
    probability = np.array(likely, dtype=np.float64)
    step = PooledStep(
        costs=COSTS,
        tables=CostTables(COSTS),
        pool=pool,
        lookahead=1,
        policy=make_gate_policy(policy),
        forecast=lambda layer, horizon: Forecast(expected_tokens=probability, probability=probability),
        tokens=1,
        experts=EXPERTS,
    )
    counts = np.zeros(EXPERTS, dtype=np.int64)
    counts[list(active)] = 1
    return step.gate(0, counts)


@pytest.mark.parametrize(("likely", "given_up"), [((1, 0, 0), 1), ((0, 0, 0), 0)])
def test_what_the_next_layer_likely_needs_stays(likely, given_up):
    pool = lru_pool((1, 0), (1, 1), used=[(1, 0), (1, 1), (0, 2)])
    (copy, *_) = first_gate(pool, "presched", active=[0], likely=likely).copies
    assert (copy.layer, copy.expert, copy.slot) == (0, 0, given_up)


@pytest.mark.parametrize(("chance", "brought"), [(0.55, []), (0.9, [(1, 2)])])
def test_a_doubtful_copy_does_not_push_out_what_is_worth_more(chance, brought):
    pool = lru_pool((0, 0), (0, 1), used=[(0, 2), (0, 2), (0, 1), (0, 0)])
    wave = first_gate(pool, "presched", active=[0], likely=(0, 0, chance))
    assert [(copy.layer, copy.expert) for copy in wave.copies] == brought


def test_a_row_that_is_still_computed_from_is_taken_only_when_no_other_is_left():
    for contents, expected in ((((0, 0), (1, 0)), 1), (((0, 0),), 0)):
        # After its use, an expert of the running layer is the one needed last.
        residency = ForwardDistanceResidency(np.full((2, EXPERTS), 0.9))
        pool = RowPool(len(contents), residency)
        for row, key in enumerate(contents):
            pool.put(row, key)
        wave = first_gate(pool, "on-demand", active=[0, 1])
        assert [(copy.expert, copy.slot) for copy in wave.copies] == [(1, expected)]


def test_the_forward_distance_is_layers_ahead_plus_whole_rounds_missed():
    scores = ForwardDistanceResidency(np.array([[0.5, 0.1], [0.25, 1.0], [0.5, 0.5]])).scores(0)
    assert scores == pytest.approx(-np.array([[6, 30], [10, 1], [5, 5]]))
