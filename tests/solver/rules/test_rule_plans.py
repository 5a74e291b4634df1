"""Every rule on tiny instances: feasible, true to its own constraints, and the same as in a running batch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from tiny_instances import instances

from prescope.formulation import PredictedDemand, evaluate
from prescope.runtime.control import realise
from prescope.solver import UnsuitableInstanceError, solve
from prescope.solver.rules import RULES, RuleMethod, play

DEVICE_ONLY = ("klotski", "fate")
NO_PREFETCH = ("ktransformers", "fiddler", "freetoken")


def missing(instance, layer):
    active = set(instance.demand.counts[layer].nonzero()[0].tolist())
    return active - set(instance.residents[layer])


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60)
@given(instance=instances())
def test_every_plan_is_feasible_and_keeps_the_rules_own_constraints(rule, instance):
    policy = RULES[rule]()
    plan = play(instance, policy)
    schedule = evaluate(instance, plan)
    for layer, entry in enumerate(plan.layers):
        misses = missing(instance, layer)
        if not instance.host_computes or (rule in DEVICE_ONLY and instance.slots):
            assert not entry.cpu
        if rule != "hybrimoe":
            assert set(entry.cpu) <= misses, "a resident was sent to the host"
        if rule == "ktransformers" and instance.host_computes:
            assert set(entry.cpu) == misses
    if instance.slots == 0 or (rule == "ktransformers" and instance.host_computes):
        assert not plan.transfers
    issued = {(copy.layer, copy.expert): copy for copy in plan.transfers}
    for copy in plan.transfers:
        assert copy.layer - copy.gate <= policy.horizon(instance.lookahead) <= instance.lookahead
    if rule in NO_PREFETCH:
        assert all(copy.gate == copy.layer for copy in plan.transfers)
    gates = {task.layer: task.end_ns for task in schedule.tasks if task.kind == "dense"}
    for task in schedule.tasks:
        if task.kind == "copy":
            copy = issued[task.layer, task.expert]
            # Slots are as planned, and nothing is issued that the next gate could still decide.
            assert task.slot == copy.slot
            assert copy.gate == task.layer or task.start_ns < gates[copy.gate + 1]


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=40)
@given(instance=instances())
def test_a_batch_decided_gate_by_gate_with_true_forecasts_is_the_same(rule, instance):
    shape = (instance.layers, *instance.demand.counts.shape)
    counts = np.broadcast_to(instance.demand.counts, shape).astype(float)
    known = PredictedDemand(probabilities=(counts > 0).astype(float), expected_tokens=counts)
    # Predictions that take time come late in a running batch, by which the two differ.
    instance = replace(instance, predicted=known, prediction_ns=())
    there, here = realise(instance, rule), play(instance, RULES[rule]())
    assert here.layers == there.layers
    assert [(copy.layer, copy.expert, copy.gate) for copy in here.transfers] == [
        (copy.layer, copy.expert, copy.gate) for copy in there.transfers
    ]


class Watched:
    """A rule that keeps the gates it was asked about."""

    def __init__(self, rule):
        self.name, self._rule, self.states = rule, RULES[rule](), []

    def horizon(self, lookahead):
        return self._rule.horizon(lookahead)

    def decide(self, state):
        self.states.append(state)
        return self._rule.decide(state)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=80)
@given(instance=instances())
def test_a_gate_is_told_the_evaluators_clock(rule, instance):
    watched = Watched(rule)
    plan = play(instance, watched)
    tasks = evaluate(instance, plan).tasks
    gates = {task.layer: task.end_ns for task in tasks if task.kind == "dense"}
    ends = {(task.layer, task.expert): task.end_ns for task in tasks if task.kind == "copy"}
    for state in (state for state in watched.states if state.layer >= 0):
        gate_ns = gates[state.layer]
        before = [copy for copy in plan.transfers if copy.gate < state.layer]
        busy_ns = [ends[copy.layer, copy.expert] for copy in before]
        assert state.link_free_ns == max(0, max([instance.link_ready_ns, *busy_ns]) - gate_ns)
        for copy in before:
            if copy.layer == state.layer:
                assert state.arrival_ns[copy.expert] == max(0, ends[copy.layer, copy.expert] - gate_ns)


@settings(max_examples=40)
@given(instance=instances(host=False))
def test_a_static_mask_is_refused_where_the_host_cannot_compute_a_miss(instance):
    if any(missing(instance, layer) for layer in range(instance.layers)):
        with pytest.raises(UnsuitableInstanceError, match="got host_computes=False with layer"):
            solve(instance, method="ktransformers")
    else:
        assert solve(instance, method="ktransformers").plan is not None


def test_a_plan_says_the_parameters_of_its_rule():
    from prescope.instances import synthetic_instance

    instance = synthetic_instance("olmoe-1b-7b", "lab", 4, 0)
    for rule, make in RULES.items():
        plan = solve(instance, method=RuleMethod(make())).plan
        assert plan is not None and plan.info.method == rule
        names = [name for name, _ in plan.info.parameters]
        assert "name" not in names and bool(names) == (rule != "ktransformers")
