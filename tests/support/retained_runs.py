"""Steps whose residents change from one to the next, decided by the real control with random scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from tiny_instances import make_instance, seeded

from prescope.formulation import Demand, Instance, Plan
from prescope.formulation.forecast import Forecast
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.runtime import DeviceArena, Program, ProgramBuilder, open_backend, synthetic_store
from prescope.runtime.control import CompiledStep, OnlineStep
from prescope.runtime.control.retention import Retention
from prescope.runtime.control.tables import CostTables
from prescope.solver.online import make_gate_policy

POLICIES = ("on-demand", "presched", "dp", "expected")


class RandomRule:
    """Scores that mean nothing: every exchange is as likely as any other."""

    name = "random"

    def __init__(self, seed: int, experts: int) -> None:
        self._random, self._experts = np.random.default_rng(seed), experts

    def observe(self, layer, counts, steps=1.0):
        pass

    def scores(self, layer, tokens):
        return self._random.random(self._experts)

    def end_step(self):
        pass

    def close(self):
        pass


@dataclass(frozen=True, kw_only=True)
class RetainedStep:
    """One step with what it was compiled to."""

    instance: Instance
    plan: Plan
    program: Program
    exchanges: int
    at_work: int
    """Exchanges in which the device computes the resident that goes."""


class RetainedRun:
    """Steps in a row with random demand and forecasts, and the builder they go into."""

    def __init__(self, seed: int, **limits: int) -> None:
        self.random = np.random.default_rng(seed)
        self.instance = replace(make_instance(seeded(seed), **limits), link_ready_ns=0)
        self.slots = max(1, self.instance.slots)
        self.kind = (OnlineStep, CompiledStep)[seed % 2]
        self.policy = make_gate_policy(str(self.random.choice(POLICIES)))
        self.tables = CostTables(self.instance.costs)
        experts = self.instance.experts
        self.retention = Retention(
            RandomRule(seed, experts), self.instance.residents, experts=experts, needed_from=1
        )
        self.builder = ProgramBuilder(
            costs=self.instance.costs,
            experts=experts,
            slots=self.slots,
            residents=self.instance.residents,
            host_computes=self.instance.host_computes,
            exchange=True,
        )
        self._link_ready_ns = 0

    def step(self) -> RetainedStep:
        """Decide and build the next step."""
        demand = self._demand()
        control = self.kind(
            costs=self.instance.costs,
            tables=self.tables,
            resident=self.retention.begin_step(tokens=demand.batch_tokens, coming_tokens=demand.batch_tokens),
            slots=self.slots,
            lookahead=3,
            policy=self.policy,
            forecast=self._forecast,
            tokens=demand.batch_tokens,
            tier=self.instance.tier,
            host_computes=self.instance.host_computes,
            link_ready_ns=self._link_ready_ns,
            prediction_ns=self.instance.prediction_ns,
        )
        at_work = 0
        self.builder.begin_step(_copies(control.start()), batch_tokens=demand.batch_tokens)
        for layer, counts in enumerate(demand.counts):
            self.builder.dense(layer)
            wave = control.gate(layer, counts)
            lasting = self.builder.lasting(layer, _copies(wave))
            exchanges = self.retention.gate(layer, counts, wave.brought, lasting)
            at_work += sum(one.victim in wave.plan.gpu for one in exchanges)
            self.builder.wave(
                layer,
                gpu=[(expert, int(counts[expert])) for expert in wave.plan.gpu],
                cpu=[(expert, int(counts[expert])) for expert in wave.plan.cpu],
                copies=_copies(wave),
                exchanges=[(one.expert, one.victim) for one in exchanges],
                prediction_ns=wave.prediction_ns,
            )
        self.builder.end_step()
        self.retention.end_step()
        instance, plan = control.finish("random")
        self._link_ready_ns = control.link_ready_ns
        made = len(self.retention.exchanges)
        program = self.builder.program()
        return RetainedStep(instance=instance, plan=plan, program=program, exchanges=made, at_work=at_work)

    def machine(self, name="sim", options=None):
        """A backend with synthetic weights, and its arena."""
        store = synthetic_store(layers=self.instance.layers, experts=self.instance.experts)
        arena = DeviceArena(store, residents=self.instance.residents, slots=self.slots)
        return open_backend(name, store, arena, options), arena

    def horizon(self, steps: list[RetainedStep]) -> tuple[Horizon, HorizonPlan]:
        """The steps as a horizon, which knows nothing of rows."""
        first = steps[0].instance
        horizon = Horizon(
            name="retained",
            costs=first.costs,
            demands=tuple(step.instance.demand for step in steps),
            residents=first.residents,
            slots=first.slots,
            lookahead=first.lookahead,
            tier=first.tier,
            host_computes=first.host_computes,
        )
        return horizon, HorizonPlan(
            plans=tuple(step.plan for step in steps),
            residents=tuple(step.instance.residents for step in steps),
        )

    def _demand(self) -> Demand:
        counts = self.random.permuted(self.instance.demand.counts, axis=1)
        return Demand(counts=counts, batch_tokens=self.instance.demand.batch_tokens)

    def _forecast(self, layer: int, horizon: int) -> Forecast:
        probability = self.random.random(self.instance.experts) * 0.8
        return Forecast(expected_tokens=probability * 2, probability=probability)


def retained_runs(
    count: int, *, first: int = 0, steps: int = 4, **limits: int
) -> Iterator[tuple[RetainedRun, list[RetainedStep]]]:
    """Runs of several steps, from seed `first` on."""
    for seed in range(first, first + count):
        run = RetainedRun(seed, **limits)
        yield run, [run.step() for _ in range(steps)]


def _copies(wave) -> list[tuple[int, int, int]]:
    return [(copy.layer, copy.expert, copy.slot) for copy in wave.copies]
