"""How long a refit remembers, against weighted least squares, and that it begins one solve at a time."""

from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.solver.residency.outlook_model import (
    Inputs,
    OutlookSettings,
    OutlookSums,
    fit_outlook,
    use_of,
)
from prescope.solver.residency.refit import Refit

LAYERS, EXPERTS = 2, 3
NEXT_STEP = OutlookSettings(ahead=1, discount=0.0, penalty=0.05)
WIDTH = NEXT_STEP.width(EXPERTS)


def drawn(random, steps):
    rows = random.random((steps, LAYERS, WIDTH))
    rows[..., -1] = 1.0
    return rows, random.random((steps, LAYERS, EXPERTS))


def weighted_fit(rows, uses, weights):
    """Ridge regression of the uses by the rows; the penalty grows with the weight, the constant has none."""
    made = []
    for layer in range(LAYERS):
        scaled = np.sqrt(weights)[:, None] * rows[:, layer]
        ridge = np.sqrt(NEXT_STEP.penalty * weights.sum()) * np.eye(WIDTH)[:-1]
        wanted = np.concatenate([np.sqrt(weights)[:, None] * uses[:, layer], np.zeros((WIDTH - 1, EXPERTS))])
        made.append(np.linalg.lstsq(np.concatenate([scaled, ridge]), wanted, rcond=None)[0])
    return np.stack(made)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), memory=st.integers(2, 40), steps=st.integers(1, 30))
def test_what_was_seen_fades_step_by_step(seed, memory, steps):
    random = np.random.default_rng(seed)
    rows, uses = drawn(random, 5 + steps)
    offline = OutlookSums(LAYERS, EXPERTS, NEXT_STEP)
    offline.add(rows[:5], uses[:5])
    refit = Refit(offline, every=1, memory=memory, background=False)
    for step in range(5, 5 + steps):
        refit.observe(rows[step], uses[step])
    ages = np.concatenate([np.full(5, steps), np.arange(steps - 1, -1, -1)])
    expected = weighted_fit(rows, uses, (1.0 - 1.0 / memory) ** ages)
    assert refit.latest(np.zeros(0)) == pytest.approx(expected, abs=1e-5)


def test_while_a_solve_is_under_way_none_is_begun():
    rows, uses = drawn(np.random.default_rng(0), 4)
    offline, going_on = OutlookSums(LAYERS, EXPERTS, NEXT_STEP), Event()
    offline.add(rows, uses)
    with Refit(offline, every=1) as refit:
        refit._running = under_way = refit._pool.submit(going_on.wait)
        for step in range(4):
            refit.observe(rows[step], uses[step])
        running = refit._running
        going_on.set()
    assert running is under_way


def test_a_sequence_has_nothing_to_do_with_the_one_before():
    random, later = np.random.default_rng(1), OutlookSettings(ahead=3, discount=0.5)
    start = np.full((LAYERS, EXPERTS), 1 / EXPERTS)
    sequences = [random.integers(0, 3, (9, LAYERS, EXPERTS)) for _ in range(2)]
    slowly = OutlookSums(LAYERS, EXPERTS, later)
    for steps in sequences:
        inputs = Inputs(start)
        for counts in steps:
            use = use_of(counts, start)
            slowly.observe(inputs.rows(), use)
            inputs.observe(use)
        slowly.forget_waiting()
    at_once = fit_outlook(sequences, start, later)
    assert slowly.weight == at_once.weight == 2 * 7
    assert np.allclose(slowly.solve(), at_once.solve(), atol=1e-6)
