"""The flow of places, and the best of what was executed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_horizons import plan_step, tiny_horizon

from prescope.formulation import CostModel, Demand, LinearTime, Link
from prescope.formulation.horizon import Horizon
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.solver.residency import (
    Belady,
    FlowRule,
    Static,
    best_offline,
    horizon_bound,
    offline_trials,
    run_horizon,
)
from prescope.solver.residency.load_flow import best_itinerary
from prescope.solver.residency.offline import PRICES
from prescope.solver.residency.uses import all_uses, by_size


def itinerary_of(horizon, uses, size, places, window, brought):
    first = [layer * horizon.experts + e for layer, row in enumerate(horizon.residents) for e in row]
    here = [key for key in first if horizon.costs.expert_bytes[key // horizon.experts] == size][:places]
    times = horizon.steps * horizon.layers
    return here, best_itinerary(
        uses,
        worth_ns=uses.cpu_ns,
        brought=brought,
        window=np.full(times, window),
        layers=horizon.layers,
        places=places,
        first_keys=here,
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(0, 2))
def test_an_itinerary_keeps_to_places_and_windows(seed, places, window):
    horizon = tiny_horizon(seed, 3)
    for size, uses in by_size(horizon, all_uses(horizon)):
        brought = np.random.default_rng(seed).random(len(uses)) < 0.3
        here, itinerary = itinerary_of(horizon, uses, size, places, window, brought)
        loads = itinerary.loaded_at[itinerary.loaded_at >= 0]
        assert (np.bincount(loads, minlength=1) <= window).all()
        step_of = uses.time // horizon.layers * horizon.layers
        loaded = itinerary.loaded_at >= 0
        assert (itinerary.loaded_at[loaded] < step_of[loaded]).all()
        for step in range(1, horizon.steps):
            there = itinerary.there(uses, step * horizon.layers).tolist()
            assert len(there) <= places
            # Nobody is there who was not there before, copied by the step, or brought.
            before = set(itinerary.there(uses, (step - 1) * horizon.layers)) if step > 1 else set(here)
            used = {
                int(key)
                for key, time, was in zip(uses.key, uses.time, brought, strict=True)
                if time // horizon.layers == step - 1 and was
            }
            fetched = {
                int(key)
                for key, at in zip(uses.key, itinerary.loaded_at, strict=True)
                if at >= 0 and at // horizon.layers <= step - 1
            }
            assert set(there) <= before | used | fetched


def test_with_room_and_link_for_all_every_later_use_is_served():
    for seed in range(10):
        horizon = tiny_horizon(seed, 3)
        for size, uses in by_size(horizon, all_uses(horizon)):
            nothing = np.zeros(len(uses), dtype=bool)
            _, itinerary = itinerary_of(horizon, uses, size, len(uses) + 9, len(uses), nothing)
            later = uses.time >= horizon.layers
            served = (itinerary.loaded_at >= 0) | itinerary.from_start
            served[uses.following[itinerary.kept]] = True
            assert (served | ~later | (uses.cpu_ns <= 1)).all()


def routed_horizon(seed, *, batch=4, steps=12, layers=4, experts=12):
    """Demand like that of decoding: drawn by drifting popularity; host 1, copy 4 times as slow as dense."""
    rng = np.random.default_rng(seed)
    liking = rng.gumbel(size=(layers, experts))
    demands = []
    for _ in range(steps):
        liking += 0.3 * rng.gumbel(size=liking.shape)
        counts = np.zeros((layers, experts), dtype=np.int64)
        for _ in range(batch):
            chosen = np.argsort(liking + rng.gumbel(size=liking.shape), axis=1)[:, -2:]
            np.add.at(counts, (np.arange(layers)[:, None], chosen), 1)
        demands.append(Demand(counts=counts, batch_tokens=batch))
    costs = CostModel(
        expert_bytes=(400,) * layers,
        link=Link(bytes_per_s=10**9, latency_ns=0),
        gpu=(LinearTime(fixed_ns=20),),
        cpu=(LinearTime(fixed_ns=100, per_token_ns=20.0),),
        dense=(LinearTime(fixed_ns=100),),
    )
    return Horizon(
        name="routed",
        costs=costs,
        demands=tuple(demands),
        residents=((0, 1, 2),) * layers,
        slots=2,
        lookahead=layers,
    )


def test_the_best_is_never_worse_than_static_or_belady():
    better = 0
    for seed in range(4):
        horizon = routed_horizon(seed)
        best = best_offline(horizon, plan_step)
        assert evaluate_horizon(horizon, best.plan) == best.schedule
        others = [
            evaluate_horizon(horizon, run_horizon(horizon, rule, plan_step)).total_ns
            for rule in (Static(), Belady([demand.counts for demand in horizon.demands]))
        ]
        assert best.schedule.total_ns <= min(others)
        assert best.schedule.total_ns >= horizon_bound(horizon)[0]
        better += best.schedule.total_ns < min(others)
    assert better >= 3


def test_every_price_and_round_is_tried():
    labels = [trial.label for trial in offline_trials(tiny_horizon(1, 2), plan_step)]
    assert labels[:2] == ["static", "belady"]
    assert len(set(labels)) == len(labels) == 2 + 2 * 2


def test_every_flow_after_the_first_takes_the_one_before_for_granted():
    # Of this horizon the two flows at one price differ.
    horizon = tiny_horizon(37, 5)
    _, belady, first, second, *_ = offline_trials(horizon, plan_step)
    assert first.plan != second.plan
    for executed, made in ((belady, first), (first, second)):
        rule = FlowRule(horizon, PRICES[0], executed.plan)
        assert run_horizon(horizon, rule, plan_step) == made.plan
