"""Every rule against a plain statement of it, and its parameters."""

from math import ceil

import numpy as np
import pytest
from gate_cases import coming, gate, gates
from hypothesis import given
from hypothesis import strategies as st

from prescope.solver.rules import RULES, Fate, Fiddler, FreeToken, HybriMoE, Klotski, KTransformers


def misses(state):
    """Missing experts, heaviest on the host first, then on the device, then by number."""
    found = [e for e in range(len(state.cpu_ns)) if state.active[e] and state.arrival_ns[e] < 0]
    return sorted(found, key=lambda e: (-state.cpu_ns[e], -state.gpu_ns[e], e))


def on_device(state):
    return [e for e in range(len(state.cpu_ns)) if state.active[e] and state.arrival_ns[e] >= 0]


@given(state=gates(), weight=st.sampled_from([0.5, 1.0, 2.0]))
def test_fiddler_loads_what_is_cheaper_to_load_each_expert_by_itself(state, weight):
    decision = Fiddler(load_weight=weight).decide(state)
    loads = [e for e in misses(state) if weight * (state.copy_ns + state.gpu_ns[e]) < state.cpu_ns[e]]
    assert list(decision.demand) == (loads if state.usable_slots else [])
    assert set(decision.gpu) == set(on_device(state)) | set(decision.demand)
    assert not decision.prefetch


@given(state=gates())
def test_ktransformers_copies_nothing(state):
    decision = KTransformers().decide(state)
    assert not decision.demand and not decision.prefetch
    assert list(decision.cpu) == misses(state)


@given(state=gates(), adaptive=st.booleans(), scale=st.sampled_from([0.5, 1.0, 1.7]))
def test_freetoken_copies_the_fraction_at_which_link_and_host_end_together(state, adaptive, scale):
    decision = FreeToken(adaptive=adaptive, fraction_scale=scale).decide(state)
    left = misses(state)
    expected = 0
    if left and state.usable_slots:
        times = [int(state.cpu_ns[e]) for e in left]
        host_ns = sum(times) / len(times) if adaptive else min(times)
        fraction = min(1.0, scale * host_ns / (host_ns + state.copy_ns))
        exact = fraction * len(left)
        neighbours = [n for n in range(len(left) + 1) if abs(n - exact) < 1 or n == exact]
        expected = min(
            neighbours, key=lambda n: (round(max(n * (1 - fraction), (len(left) - n) * fraction), 9), n)
        )
    assert list(decision.demand) == left[:expected]
    assert not decision.prefetch


@pytest.mark.parametrize("rule", [Klotski(), Fate()])
@given(state=gates(host=None))
def test_klotski_and_fate_run_everything_on_the_device(rule, state):
    decision = rule.decide(state)
    if state.usable_slots or not state.host_computes:
        assert not decision.cpu
        assert list(decision.demand) == misses(state)
        # What is there is computed first, what is under way in order of arrival, then what is brought now.
        keys = [max(int(state.arrival_ns[e]), 0) for e in decision.gpu if e not in decision.demand]
        assert keys == sorted(keys)
        assert decision.gpu[len(keys) :] == decision.demand
    else:
        assert list(decision.cpu) == misses(state)


@given(
    cpu=st.lists(st.integers(0, 900), min_size=5, max_size=5),
    held=st.sets(st.integers(0, 4)),
    share=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
)
def test_klotski_prefetches_the_hottest_share_of_the_next_layer(cpu, held, share):
    forecast = coming(cpu, held=held)
    decision = Klotski(hot_fraction=share).decide(gate([50, 0, 0, 0, 0], future=(forecast,)))
    wanted = sorted((e for e in range(5) if cpu[e] and e not in held), key=lambda e: (-cpu[e], e))
    assert decision.prefetch == tuple((1, e) for e in wanted[: ceil(share * 5)])


def test_fate_fills_the_window_up_to_the_next_gate():
    forecast = coming([900, 300, 0, 600], dense_ns=150, copy_ns=100)
    # Its own copy ends at 100, the layer at 101, the next gate is at 251: one copy ends before it.
    state = gate([70, 0, 0, 0], future=(forecast,))
    assert Fate(extra=0).decide(state).prefetch == ((1, 0),)
    assert Fate(extra=1).decide(state).prefetch == ((1, 0), (1, 3))
    assert Fate(extra=0).decide(gate([0, 0, 0, 0], layer=-1, future=(forecast,))).prefetch == ((1, 0),)


def test_hybrimoe_spends_leftover_link_time_where_it_gains_most():
    near, far = coming([0, 60, 0, 0], dense_ns=350), coming([0, 0, 5000, 0])
    # The layer ends at 40 with nothing copied; three copies end before the gate at 390.
    near_only, both = (gate([40, 0, 0, 0], future=future) for future in ((near,), (near, far)))
    assert HybriMoE(depth=1, extra=0).decide(near_only).prefetch == ((1, 1),)
    assert HybriMoE(depth=2, extra=0).decide(both).prefetch == ((2, 2), (1, 1))
    short = gate([40, 0, 0, 0], future=(coming([0, 300, 0, 200], dense_ns=60),))
    assert HybriMoE(depth=1, extra=0).decide(short).prefetch == ((1, 1),)
    assert not HybriMoE(depth=1, extra=0).decide(gate([40], future=(coming([0.0]),))).prefetch


def test_hybrimoe_does_not_prefetch_what_the_host_would_do_meanwhile():
    # Device time is what the layer waits for; another expert there would make it longer.
    forecast = coming([10, 1000], held=[1], dense_ns=1000)
    forecast.gpu_ns[:] = (500, 900)
    assert not HybriMoE(depth=1).decide(gate([40, 0], future=(forecast,))).prefetch


@pytest.mark.parametrize("rule", RULES)
def test_nobody_prefetches_without_a_free_slot(rule):
    state = gate([40, 0], future=(coming([300, 400], dense_ns=900),), free_slots=0)
    assert not RULES[rule]().decide(state).prefetch


@pytest.mark.parametrize("rule", RULES)
def test_the_start_of_a_batch_and_an_idle_layer_compute_nothing(rule):
    policy = RULES[rule]()
    for state in (gate([0, 0], layer=-1), gate([0, 0])):
        decision = policy.decide(state)
        assert (decision.gpu, decision.cpu, decision.demand) == ((), (), ())


@pytest.mark.parametrize("rule", RULES)
def test_rules_are_named_after_themselves(rule):
    assert RULES[rule]().name == rule
    assert RULES[rule]().horizon(0) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fiddler(load_weight=0.0), "expected load_weight > 0, got 0"),
        (lambda: Fiddler(load_weight=float("nan")), "expected load_weight to be finite"),
        (lambda: FreeToken(fraction_scale=-1), "expected fraction_scale to be finite and >= 0"),
        (lambda: Klotski(hot_fraction=1.5), r"expected hot_fraction in \[0, 1\], got 1.5"),
        (lambda: Fate(extra=-1), r"expected extra in \[0, inf\], got -1"),
        (lambda: HybriMoE(depth=0), r"expected depth in \[1, inf\], got 0"),
        (lambda: HybriMoE(extra=0.5), "expected extra to be an integer"),
    ],
)
def test_parameters_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_forecasts_that_are_only_likely_are_used_too():
    forecast = coming([90.0, 30.0, 60.0])
    forecast.probability[:] = (0.2, 0.0, 0.9)
    wishes = Klotski(hot_fraction=1.0).decide(gate([50, 0, 0], future=(forecast,))).prefetch
    assert wishes == ((1, 0), (1, 2))
    assert np.all(forecast.held == 0)


def test_between_equals_the_host_computes_in_place():
    even = gate([101], [1], copy_ns=100)
    assert Fiddler().decide(even).cpu == (0,)
    assert HybriMoE().decide(even).cpu == (0,)
    # One miss, half of it to each side: either whole number is as far off.
    assert FreeToken(fraction_scale=1.0).decide(gate([100], copy_ns=100)).cpu == (0,)
    late = gate([102], [1], copy_ns=100)
    assert [rule.decide(late).demand for rule in (Fiddler(), HybriMoE())] == [(0,), (0,)]
