"""Planned reads ahead against a search over all plans of the same model, and by what they must not do."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prescope.solver.online.reads import MOST, plan_reads


def planned(probability, *, lead_ns=0.0, dense_ns=100, copy_ns=100, gpu_ns=10, held=None, slots=8, least=0.0):
    probability = np.atleast_2d(np.array(probability, dtype=np.float64))
    layers, experts = probability.shape
    ahead, chosen = np.empty(layers * experts, dtype=np.int64), np.empty(layers * experts, dtype=np.int64)
    found = plan_reads(
        probability,
        probability * gpu_ns,
        np.zeros(probability.shape, dtype=np.bool_) if held is None else np.atleast_2d(np.array(held)),
        np.full(layers, dense_ns, dtype=np.int64),
        np.full(layers, copy_ns, dtype=np.int64),
        float(lead_ns),
        slots,
        0.0,
        least,
        ahead,
        chosen,
    )
    return list(zip(ahead[:found].tolist(), chosen[:found].tolist(), strict=True))


def length(probability, number, *, lead_ns, dense_ns, copy_ns, gpu_ns):
    """Expected time of one layer with its ``number`` most probable experts read ahead, from the docstring."""
    order = np.sort(probability)[::-1]
    left = order[number:].sum()
    share = min(1.0, left)
    over = max(0.0, number * copy_ns - lead_ns - dense_ns)
    any_read = 1.0 - np.prod(1.0 - probability)
    last = gpu_ns if probability.sum() else 0.0
    waits = over * any_read + max(left * copy_ns + last * share, share * copy_ns + left * gpu_ns)
    return dense_ns + max(probability.sum() * gpu_ns, waits)


@given(
    probability=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=MOST),
    lead_ns=st.integers(-300, 500),
    dense_ns=st.integers(0, 400),
    gpu_ns=st.integers(0, 200),
)
def test_one_layer_is_the_best_of_all_numbers(probability, lead_ns, dense_ns, gpu_ns):
    probability = np.array(probability)
    costs = {"lead_ns": lead_ns, "dense_ns": dense_ns, "copy_ns": 100, "gpu_ns": gpu_ns}
    wishes = planned(probability, **costs)
    lengths = [length(probability, number, **costs) for number in range(len(probability) + 1)]
    assert lengths[len(wishes)] <= min(lengths) + 1.0
    # The most probable ones, in order.
    chances = [probability[expert] for _, expert in wishes]
    assert chances == sorted(probability, reverse=True)[: len(wishes)]


def test_a_read_that_fits_is_made_and_one_that_would_hold_up_the_gate_only_when_it_is_likely():
    # 100 until the gate, a read takes 100: it is over by then.
    assert planned([0.3, 0.2]) == [(1, 0)]
    # A read that ends 60 after the gate saves 40 of its 100 when needed, and holds up the others by 60.
    assert planned([0.9, 0.4], dense_ns=40) == [(1, 0)]
    assert planned([0.3, 0.9], dense_ns=40, held=[False, True]) == [(1, 0)]
    assert planned([0.5, 0.5, 0.5, 0.5], dense_ns=20) == []
    # The link is late by more than the time until the gate.
    assert planned([0.5, 0.5, 0.5], lead_ns=-90) == []


def test_what_is_held_unlikely_or_without_room_is_not_read():
    assert planned([0.9, 0.8], held=[True, False]) == [(1, 1)]
    assert planned([0.9, 0.1], dense_ns=1000, least=0.2) == [(1, 0)]
    assert len(planned([0.9] * 6, dense_ns=1000, slots=2)) == 2
    assert planned([0.9] * 3, slots=0) == []
    assert planned([0.0] * 3) == []
    assert planned(np.zeros((2, 1))) == []
    assert len(planned([0.9] * 30, dense_ns=10_000, slots=30)) == MOST


def test_later_layers_get_what_time_is_left_before_the_gate():
    # Two reads fit; the next layer wants one.
    both = planned([[0.9, 0.0, 0.0], [0.0, 0.9, 0.8]], dense_ns=200)
    assert both == [(1, 0), (2, 1)]
    assert planned([[0.9, 0.0, 0.0], [0.0, 0.9, 0.8]], dense_ns=100) == [(1, 0)]


@given(seed=st.integers(0, 10**6), layers=st.integers(1, 5), experts=st.integers(1, 12))
def test_wishes_are_distinct_in_order_and_no_one_held(seed, layers, experts):
    random = np.random.default_rng(seed)
    probability = random.random((layers, experts)) * (random.random((layers, experts)) < 0.5)
    held = random.random((layers, experts)) < 0.3
    wishes = planned(
        probability,
        held=held,
        lead_ns=int(random.integers(-500, 500)),
        dense_ns=int(random.integers(0, 500)),
        gpu_ns=int(random.integers(0, 200)),
        least=0.2,
    )
    assert len(set(wishes)) == len(wishes)
    assert [ahead for ahead, _ in wishes] == sorted(ahead for ahead, _ in wishes)
    for ahead, expert in wishes:
        assert not held[ahead - 1, expert]
        assert probability[ahead - 1, expert] >= 0.2
    for one, two in product(range(1, layers + 1), range(len(wishes))):
        mine = [probability[ahead - 1, expert] for ahead, expert in wishes[: two + 1] if ahead == one]
        assert mine == sorted(mine, reverse=True)


def test_reads_that_take_no_time_to_speak_of_divide_nothing_by_zero():
    assert planned([1.0, 1.0], copy_ns=1, dense_ns=0, gpu_ns=0) in ([], [(1, 0)], [(1, 0), (1, 1)])
