"""Guard of reads ahead: off when the predictor is wrong, on when it is right again, never in between."""

import numpy as np
import pytest

from prescope.formulation import CostModel, Link
from prescope.formulation.forecast import Forecast
from prescope.formulation.time_curves import LinearTime
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.pooled_compiled import CompiledPooledStep
from prescope.runtime.control.read_rules import EXPECTED, PLAIN, ReadRules, read_rules
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
