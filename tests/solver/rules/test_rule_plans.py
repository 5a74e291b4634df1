"""Every rule on tiny instances: feasible, timed as its own clock says, true to its own constraints."""

import pytest
from hypothesis import given
from tiny_instances import instances

from prescope.formulation import evaluate, makespan_ns
from prescope.solver import lower_bound
from prescope.solver.online import GateDecision
from prescope.solver.rules import RULES, play

DEVICE_ONLY = ("klotski", "fate")
NO_PREFETCH = ("ktransformers", "fiddler", "freetoken")


def missing(instance, layer):
    active = set(instance.demand.counts[layer].nonzero()[0].tolist())
    return active - set(instance.residents[layer])


@pytest.mark.parametrize("rule", RULES)
@given(instance=instances())
def test_every_plan_is_feasible_and_keeps_the_rules_own_constraints(rule, instance):
    plan = play(instance, RULES[rule]())
    assert makespan_ns(instance, plan) >= lower_bound(instance)
    for layer, entry in enumerate(plan.layers):
        misses = missing(instance, layer)
        if not instance.host_computes:
            assert not entry.cpu
        elif rule in DEVICE_ONLY and instance.slots:
            assert not entry.cpu
        if rule in (*DEVICE_ONLY, *NO_PREFETCH):
            assert set(entry.cpu) <= misses, "a resident was sent to the host"
        if rule == "ktransformers" and instance.host_computes:
            assert set(entry.cpu) == misses
    if instance.slots == 0 or (rule == "ktransformers" and instance.host_computes):
        assert not plan.transfers
    for copy in plan.transfers:
        assert copy.gate is not None
        ahead = copy.layer - copy.gate
        assert ahead <= max(instance.lookahead, 0)
        assert not ahead or rule not in NO_PREFETCH
        assert ahead <= (RULES[rule]().horizon(instance.lookahead))


@pytest.mark.parametrize("rule", RULES)
@given(instance=instances())
def test_the_clock_of_the_game_is_the_evaluators(rule, instance):
    class Watch:
        name = rule
        policy = RULES[rule]()
        horizon = policy.horizon

        def decide(self, state):
            decision = self.policy.decide(state)
            assert isinstance(decision, GateDecision)
            return decision

    plan = play(instance, Watch())
    schedule = evaluate(instance, plan)
    slots = {(task.layer, task.expert): task.slot for task in schedule.tasks if task.kind == "copy"}
    assert slots == {(copy.layer, copy.expert): copy.slot for copy in plan.transfers}
    issued = {(copy.layer, copy.expert): copy.gate for copy in plan.transfers}
    gates = {task.layer: task.end_ns for task in schedule.tasks if task.kind == "dense"}
    for task in schedule.tasks:
        if task.kind != "copy":
            continue
        gate = issued[task.layer, task.expert]
        if gate < task.layer:
            assert task.start_ns < gates[gate + 1], "issued although the next gate could still decide"
