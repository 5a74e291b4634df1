"""Steps over a pool of rows whose contents outlive the step, decided by the real controller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from tiny_instances import make_instance, seeded

from prescope.formulation import Demand, Instance, Tier
from prescope.formulation.forecast import Forecast
from prescope.runtime import Program, ProgramBuilder
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.pooled import PooledStep
from prescope.runtime.control.residency import make_residency, residencies
from prescope.runtime.control.tables import CostTables
from prescope.solver.online import make_gate_policy

POLICIES = ("on-demand", "presched", "dp", "expected")


class PooledRun:
    """Steps in a row with random demand and random forecasts, and the builder they went into."""

    def __init__(self, seed: int, **limits: int) -> None:
        self.random = np.random.default_rng(seed)
        instance = make_instance(seeded(seed), host=False, **limits)
        self.instance: Instance = replace(instance, tier=Tier.DISK, link_ready_ns=0)
        shape = self.instance.demand.counts.shape
        self.rows = int(self.random.integers(1, shape[0] * shape[1] + 2))
        residency = str(self.random.choice(residencies()))
        popularity = self.random.random(shape)
        self.pool = RowPool(self.rows, make_residency(residency, popularity, rows=self.rows, scratch=2))
        self.policy = make_gate_policy(str(self.random.choice(POLICIES)))
        self.tables = CostTables(self.instance.costs)
        self.builder = ProgramBuilder(
            costs=self.instance.costs,
            experts=shape[1],
            slots=self.rows,
            residents=((),) * shape[0],
            host_computes=False,
            carry=True,
        )

    def step(self) -> Program:
        """Decide and build the next step."""
        demand = self._demand()
        control = PooledStep(
            costs=self.instance.costs,
            tables=self.tables,
            pool=self.pool,
            lookahead=2,
            policy=self.policy,
            forecast=self._forecast,
            tokens=demand.batch_tokens,
            experts=self.instance.experts,
        )
        self.builder.begin_step(_copies(control.start()), batch_tokens=demand.batch_tokens)
        for layer, counts in enumerate(demand.counts):
            self.builder.dense(layer)
            wave = control.gate(layer, counts)
            gpu = [(expert, int(counts[expert])) for expert in wave.plan.gpu]
            self.builder.wave(layer, gpu=gpu, copies=_copies(wave))
        self.builder.end_step()
        return self.builder.program()

    def owners(self) -> dict[int, tuple[int, int]]:
        """What the controller believes to be in its rows."""
        return {row: owner for row in range(self.rows) if (owner := self.pool.owner(row)) is not None}

    def _demand(self) -> Demand:
        counts = self.random.permuted(self.instance.demand.counts, axis=1)
        return Demand(counts=counts, batch_tokens=self.instance.demand.batch_tokens)

    def _forecast(self, layer: int, horizon: int) -> Forecast:
        probability = self.random.random(self.instance.experts)
        return Forecast(expected_tokens=probability * 2, probability=probability)


def pooled_runs(
    count: int, *, first: int = 0, steps: int = 3, **limits: int
) -> Iterator[tuple[PooledRun, list[Program]]]:
    """Runs of several steps, from seed `first` on."""
    for seed in range(first, first + count):
        run = PooledRun(seed, **limits)
        yield run, [run.step() for _ in range(steps)]


def _copies(wave) -> list[tuple[int, int, int]]:
    return [(copy.layer, copy.expert, copy.slot) for copy in wave.copies]
