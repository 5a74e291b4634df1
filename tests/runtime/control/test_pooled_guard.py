"""Guard of reads ahead: off when the predictor is wrong, on when it is right again, never in between."""

import numpy as np
import pytest

from prescope.formulation import CostModel, Link
from prescope.formulation.forecast import Forecast
from prescope.formulation.time_curves import LinearTime
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.pooled_compiled import CompiledPooledStep
from prescope.runtime.control.pooled_guard import (
    GONE,
    KEPT,
    PROMISED,
    RESTING,
    SPARED,
    note_displaced,
    settle,
    trust_reads,
)
from prescope.runtime.control.pooled_site import new_pool_state
from prescope.runtime.control.read_rules import EXPECTED, PLAIN, SLACK, ReadRules, read_rules
from prescope.runtime.control.residency import make_residency
from prescope.runtime.control.tables import CostTables
from prescope.solver.online import ExpectedPolicy, make_gate_policy

LAYERS, EXPERTS = 6, 8
COSTS = CostModel(
    expert_bytes=(100,) * LAYERS,
    link=Link(bytes_per_s=10**9),
    gpu=(LinearTime(fixed_ns=20),),
    cpu=(LinearTime(fixed_ns=0),),
    dense=(LinearTime(fixed_ns=150),),
    source="a test",
)


class Runs:
    """Steps of two random experts a layer, and forecasts that are right or wrong."""

    def __init__(self, policy):
        popularity = np.full((LAYERS, EXPERTS), 0.25)
        self.pool = RowPool(12, make_residency("moving-average", popularity, rows=12, scratch=2))
        self.policy, self.random = policy, np.random.default_rng(0)

    def ahead(self, steps, *, right):
        """Share of the steps' experts that were read ahead."""
        found = 0
        for _ in range(steps):
            chosen = self.random.permuted(np.tile(np.arange(EXPERTS) < 2, (LAYERS, 1)), axis=1)

            def forecast(layer, horizon, chosen=chosen):
                row = chosen[layer + horizon]
                probability = np.where(row if right else np.roll(row, 1) & ~row, 0.95, 0.01)
                return Forecast(expected_tokens=probability, probability=probability)

            step = CompiledPooledStep(
                costs=COSTS,
                tables=CostTables(COSTS),
                pool=self.pool,
                lookahead=2,
                policy=self.policy,
                forecast=forecast,
                tokens=1,
                experts=EXPERTS,
            )
            step.start()
            for layer in range(LAYERS):
                step.gate(layer, chosen[layer].astype(np.int64))
            found += sum(copy.layer > copy.gate for copy in step.finish()[1].transfers)
        return found / (steps * LAYERS * 2)


def test_reads_ahead_rest_while_they_are_wrong_and_are_taken_up_again():
    runs = Runs(make_gate_policy("expected"))
    assert runs.ahead(30, right=True) > 0.2
    runs.ahead(20, right=False)
    assert runs.ahead(30, right=False) == 0.0
    runs.ahead(40, right=True)
    assert runs.ahead(30, right=True) > 0.2


def test_without_a_guard_it_goes_on():
    runs = Runs(ExpectedPolicy())
    runs.ahead(50, right=False)
    assert runs.ahead(30, right=False) > 0.2


def test_rules_by_policy():
    assert read_rules(make_gate_policy("dp")) is PLAIN
    assert read_rules(make_gate_policy("expected")) is EXPECTED
    assert read_rules(ExpectedPolicy()).guard == 0.0
    with pytest.raises(ValueError, match=r"expected least in \[0, 1\], got 2"):
        ReadRules(least=2)


def gates_to_rest(trust_ns, kept, *, most=1000):
    """Gates until reads ahead rest that promise a read of 100 ns and save ``kept``."""
    for gate in range(1, most):
        trust_reads(trust_ns, 100.0, kept, 100, 0.1)
        if trust_ns[RESTING]:
            return gate
    return None


def test_it_rests_when_reads_are_lost_however_long_it_takes_and_however_well_it_went_before():
    trust_ns = np.zeros(4)
    for _ in range(500):
        trust_reads(trust_ns, 100.0, 80.0, 100, 0.1)
    # The faded past is still good when the reads are lost.
    assert SLACK < gates_to_rest(trust_ns, -100.0) < 5 * SLACK
    assert gates_to_rest(np.zeros(4), -100.0) == SLACK
    assert gates_to_rest(np.zeros(4), -5.0) == 20 * SLACK
    assert gates_to_rest(np.zeros(4), 0.0) is None


def test_a_bad_streak_that_is_made_up_for_does_not_make_it_rest():
    trust_ns = np.zeros(4)
    for _ in range(100):
        for kept in (*[-100.0] * 7, *[100.0] * 7):
            trust_reads(trust_ns, 100.0, kept, 100, 0.1)
            assert not trust_ns[RESTING]


def test_it_is_taken_up_when_it_would_keep_its_share_and_has_its_slack_again():
    trust_ns = np.zeros(4)
    gates_to_rest(trust_ns, -100.0)
    for _ in range(1000):
        trust_reads(trust_ns, 100.0, 5.0, 100, 0.1)
        assert trust_ns[RESTING]
    while trust_ns[RESTING]:
        trust_reads(trust_ns, 100.0, 50.0, 100, 0.1)
    assert trust_ns[KEPT] >= 0.1 * trust_ns[PROMISED]
    trust_ns[:2] = 0.0
    assert gates_to_rest(trust_ns, -100.0) == SLACK


class Watched:
    """One expert of each of two layers in memory, while reads ahead rest."""

    def __init__(self):
        popularity = np.full((2, 4), 0.25)
        self.pool = RowPool(2, make_residency("moving-average", popularity, rows=2, scratch=1))
        self.pool.put(0, (0, 0))
        self.pool.put(1, (1, 0))
        self.pool.trust_ns[RESTING] = 1.0
        self.state = new_pool_state(self.pool, ahead=1)

    def watch(self, *, comes_ns=0):
        """Expert 1 of layer 1 would be read into the row of expert 0 of layer 0."""
        self.state.promise_ns[1, 1] = 50.0
        self.state.watched_ns[1, 1] = comes_ns
        note_displaced(self.state, 1, 1, 0)

    def settle(self, layer, needed):
        """What is kept by a gate where one expert is needed and a read takes 100 ns."""
        self.pool.trust_ns[KEPT] = 0.0
        settle(self.state, layer, np.arange(4) == needed, 100, 1000, 0.1)
        return self.pool.trust_ns[KEPT]


def test_a_watched_read_saves_what_it_would_have():
    watched = Watched()
    watched.watch(comes_ns=1030)
    assert watched.settle(1, 1) == 70
    assert not watched.pool.pushed_out.any()


@pytest.mark.parametrize(("held", "kept"), [(True, -100), (False, 0)])
def test_whom_a_watched_read_would_have_displaced_is_lost_while_it_is_there(held, kept):
    watched = Watched()
    watched.watch()
    assert watched.settle(1, 0) == 0
    assert watched.pool.pushed_out[0, 0] == SPARED
    if not held:
        watched.pool.put(0, (0, 3))
    assert watched.settle(0, 0) == kept
    assert not watched.pool.pushed_out.any()


def test_whom_a_read_displaced_is_lost_only_when_its_layer_needs_it_next():
    watched = Watched()
    watched.watch()
    watched.settle(1, 0)
    assert watched.settle(0, 2) == 0
    assert watched.settle(0, 0) == 0


@pytest.mark.parametrize(("held", "kept"), [(True, 0), (False, -100)])
def test_whom_a_read_did_displace_is_lost_while_it_is_not_there(held, kept):
    watched = Watched()
    watched.watch()
    watched.pool.put(0, (1, 1))
    watched.state.arrival_ns[1, 1] = 900
    assert watched.settle(1, 0) == 0
    assert watched.pool.pushed_out[0, 0] == GONE
    if held:
        watched.pool.put(0, (0, 0))
    assert watched.settle(0, 0) == kept
