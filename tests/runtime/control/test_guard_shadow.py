"""The guard's reckoning at every gate, against whole plans: what prefetch saved, or would have saved."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from predicted_instances import predicted_instance

from prescope.formulation import CostModel, Demand, Instance, LinearTime, Link, PredictedDemand, evaluate
from prescope.formulation.schedule import TaskKind
from prescope.runtime.control import realise
from prescope.runtime.control.realised import predicted_step
from prescope.runtime.control.rollout import rollout
from prescope.solver.online import ExpectedPolicy, policy_code
from prescope.solver.online.guard import FADE, GAIN, PLAIN, RESTING, TOTAL
from prescope.solver.online.recalibrate import learn, new_calibration, new_sums, recalibrate

# So much gained or lost that no gate changes what follows from it; exact in float64 beside nanoseconds.
MUCH_NS = 2.0**30


LAYERS = 10


def small(seed):
    """A few layers of any kind: many equal times, layers unlike each other."""
    return replace(predicted_instance(seed, 3, max_layers=LAYERS), prediction_ns=(), link_ready_ns=0)


def prefetching(seed):
    """Layers that the link brings several experts for in time; the forecasts are good or bad."""
    random = np.random.default_rng(seed)
    experts, ahead = int(random.integers(2, 7)), int(random.integers(1, 5))
    counts = (random.random((LAYERS, experts)) < 0.5).astype(np.int64)
    chance = np.clip(random.uniform(-0.8, 0.8) * (counts - 0.5) + random.random(counts.shape), 0.0, 1.0)
    said = np.broadcast_to(chance, (ahead, *chance.shape))
    costs = CostModel(
        expert_bytes=tuple(random.integers(20, 400, LAYERS).tolist()),
        link=Link(bytes_per_s=10**9),
        gpu=(LinearTime(fixed_ns=20),),
        cpu=(LinearTime(fixed_ns=400),),
        dense=(LinearTime(fixed_ns=int(random.integers(0, 400))),),
        source="a test",
    )
    return Instance(
        name="prefetching",
        costs=costs,
        demand=Demand(counts=counts, batch_tokens=1),
        residents=((),) * LAYERS,
        slots=int(random.integers(1, 9)),
        lookahead=ahead,
        predicted=PredictedDemand(probabilities=said, expected_tokens=said, source="a test"),
    )


instances = st.builds(
    lambda make, seed: make(seed), st.sampled_from([small, prefetching]), st.integers(0, 10**6)
)
steering = st.lists(st.booleans(), min_size=LAYERS, max_size=LAYERS)


def taken_ns(instance, plan):
    return np.diff([0, *evaluate(instance, plan).layer_end_ns]).tolist()


def steered(instance, rests, *, begins=False):
    """A step whose prefetch is made to rest after the gates that ``rests`` says.

    Returns
    -------
    tuple
        The plan; of every gate what the guard took for the gain, for the time without prefetch, and for the
        gain in all; and what it remembers.
    """
    policy = ExpectedPolicy(guard=0.5)
    trust_ns = policy.memory.trust_ns
    trust_ns[RESTING] = float(begins)
    step = predicted_step(instance, policy)
    step.start()
    seen = []
    for layer, (counts, rest) in enumerate(zip(instance.demand.counts, rests, strict=True)):
        before_ns = -MUCH_NS if rest else MUCH_NS
        trust_ns[GAIN], trust_ns[PLAIN], trust_ns[TOTAL] = before_ns, 1.0, 0.0
        step.gate(layer, counts)
        assert bool(trust_ns[RESTING]) == rest
        gain_ns, plain_ns = trust_ns[GAIN] - before_ns * FADE, trust_ns[PLAIN] - FADE
        # The other step has no more copies than there is room for, however often it begins anew.
        other = step._state.shadow
        assert other.counters[0] <= other.copies.shape[0]
        seen.append((round(float(gain_ns)), round(float(plain_ns)), float(trust_ns[TOTAL])))
    return step.finish()[1], seen, policy.memory


@settings(max_examples=150)
@given(instance=instances, rests=steering, begins=st.booleans())
def test_the_gain_of_every_gate_is_the_difference_of_two_steps(instance, rests, begins):
    """While prefetch rests, the other step is the one that has gone on with it since then."""
    layers = instance.layers
    rests = rests[:layers]
    plan, seen, _ = steered(instance, rests, begins=begins)
    taken = taken_ns(instance, plan)
    bare = taken_ns(instance, realise(instance, "intra-layer"))
    resting, began, other = begins, 0, None
    for layer in range(layers):
        if resting:
            if other is None:
                # Had it not begun to rest.
                going_on = [*rests[: max(0, began - 1)], *[False] * layers][:layers]
                other = taken_ns(instance, steered(instance, going_on, begins=began > 0 and begins)[0])
            assert seen[layer] == (taken[layer] - other[layer], taken[layer], 0.0)
        else:
            gain_ns = bare[layer] - taken[layer]
            assert seen[layer] == (gain_ns, bare[layer], gain_ns)
        if rests[layer] and not resting:
            began, other = layer + 1, None
        resting = rests[layer]


@settings(max_examples=60)
@given(instance=instances, rests=steering, begins=st.booleans())
def test_while_it_rests_nothing_is_brought_ahead(instance, rests, begins):
    rests = rests[: instance.layers]
    plan, _, _ = steered(instance, rests, begins=begins)
    at_gate = [begins, begins, *rests]
    resting = {gate for gate in range(-1, instance.layers) if at_gate[gate + 1]}
    assert not any(copy.layer > copy.gate for copy in plan.transfers if copy.gate in resting)


@settings(max_examples=60)
@given(instance=instances, rests=steering, begins=st.booleans())
def test_it_hears_of_every_forecast_and_gate_whether_prefetch_rests_or_not(instance, rests, begins):
    _, _, memory = steered(instance, rests[: instance.layers], begins=begins)
    said, layers = instance.predicted.probabilities, instance.layers
    ahead = min(instance.lookahead, instance.predicted.horizons)
    sums = new_sums(memory.sums.shape[0])
    calibration = new_calibration(ahead, said.shape[2], sums)
    for layer in range(-1, layers):
        if layer >= 0:
            learn(calibration, layer, instance.demand.counts[layer])
        rows = range(min(ahead, layers - 1 - layer))
        chance = np.array([said[row, layer + 1 + row] for row in rows]).reshape(len(rows), said.shape[2])
        recalibrate(calibration, layer, chance, chance.copy(), len(rows))
    assert np.array_equal(memory.sums, sums)


def test_the_other_step_leaves_no_trace_in_the_plan():
    """The only slot is held for a wrong guess, four layers at a time, where rest copies at every gate."""
    counts = np.zeros((LAYERS, 2), dtype=np.int64)
    counts[:, 0] = 1
    said = np.zeros((4, LAYERS, 2))
    said[3, :, 1] = 0.95
    costs = CostModel(
        expert_bytes=(100,) * LAYERS,
        link=Link(bytes_per_s=10**9),
        gpu=(LinearTime(fixed_ns=20),),
        cpu=(LinearTime(fixed_ns=400),),
        dense=(LinearTime(fixed_ns=300),),
        source="a test",
    )
    instance = Instance(
        name="held",
        costs=costs,
        demand=Demand(counts=counts, batch_tokens=1),
        residents=((),) * LAYERS,
        slots=1,
        lookahead=4,
        predicted=PredictedDemand(probabilities=said, expected_tokens=said, source="a test"),
    )
    plan = realise(instance, ExpectedPolicy(guard=0.01))
    on_demand = [copy.layer for copy in plan.transfers if copy.layer == copy.gate]
    assert on_demand[-4:] == list(range(LAYERS - 4, LAYERS))
    # As one call, all copies are read when the step is over.
    at_once = rollout(instance, policy_code(ExpectedPolicy(guard=0.01))).plan()
    assert (at_once.layers, at_once.transfers) == (plan.layers, plan.transfers)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_forecasts_of_nothing_gain_nothing_though_the_host_still_computes_them(seed):
    instance = predicted_instance(seed, 3, max_layers=6)
    said = instance.predicted
    nothing = np.zeros_like(said.probabilities)
    costly = tuple(np.random.default_rng(seed).integers(0, 40, instance.layers).tolist())
    silent = replace(
        instance,
        predicted=replace(said, probabilities=nothing, expected_tokens=nothing),
        prediction_ns=costly,
        link_ready_ns=0,
    )
    plan, seen, _ = steered(silent, [False] * instance.layers)
    taken = taken_ns(silent, plan)
    assert seen[:-1] == [(0, layer_ns, 0.0) for layer_ns in taken[:-1]]
    # The last layer may last until the host has forecast what nobody needs any more: then it is left out.
    schedule = evaluate(silent, plan)
    done_ns = max(
        task.end_ns
        for task in schedule.tasks
        if task.layer == silent.layers - 1 and task.kind in (TaskKind.DENSE, TaskKind.COMPUTE)
    )
    untouched = (round(MUCH_NS - MUCH_NS * FADE), 0, 0.0)
    if schedule.makespan_ns > done_ns:
        assert seen[-1] == untouched
    else:
        # With a forecast that is made just as long, either will do.
        assert seen[-1] in [(0, taken[-1], 0.0), untouched][: 1 + any(costly)]
