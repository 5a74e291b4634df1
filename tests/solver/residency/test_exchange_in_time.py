"""Exchanges with times: who may take whose place, and that nothing worth doing is left undone."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.formulation.horizon_swaps import SwapTimes, swaps_fit
from prescope.solver.residency import exchange


@settings(max_examples=200)
@given(seed=st.integers(0, 10**6), per_layer=st.booleans())
def test_each_comer_finds_a_place_left_in_time_if_there_is_one(seed, per_layer):
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 4)), int(rng.integers(2, 6))
    resident, brought = rng.random(shape) < 0.5, rng.random(shape) < 0.5
    scores = rng.integers(0, 6, shape).astype(float)
    sizes = rng.integers(1, 3, shape[0]).tolist()
    times = SwapTimes(
        taken_ns=np.where(brought, rng.integers(0, 6, shape), -1), leave_ns=rng.integers(0, 6, shape)
    )
    after = exchange(resident, brought, scores, sizes, per_layer=per_layer, times=times)
    stayed, stayed_away = resident & after, brought & ~resident & ~after
    group = np.arange(shape[0]) if per_layer else np.array(sizes)
    for place in set(group.tolist()):
        rows = group == place
        came, left = (after & ~resident)[rows], (resident & ~after)[rows]
        assert came.sum() == left.sum()
        assert not (came & ~brought[rows]).any()
        taken, leave = times.taken_ns[rows][came].tolist(), times.leave_ns[rows][left].tolist()
        assert swaps_fit(taken, leave, 0)
        # One by one the comers are worth more than whom they replace.
        assert (np.sort(scores[rows][came]) > np.sort(scores[rows][left])).all()
        away = stayed_away[rows]
        for worth, taken_ns in zip(scores[rows][away], times.taken_ns[rows][away], strict=True):
            there = stayed[rows]
            assert not ((scores[rows][there] < worth) & (times.leave_ns[rows][there] <= taken_ns)).any()


def test_the_least_that_was_done_in_time_goes():
    """The worst resident is still at work when the slot is taken: the next better one goes in its stead."""
    resident, brought = np.array([[True, True, True, False]]), np.array([[False, False, False, True]])
    times = SwapTimes(taken_ns=np.array([[-1, -1, -1, 5]]), leave_ns=np.array([[9, 5, 2, 0]]))
    scores = np.array([[1.0, 2.0, 3.0, 4.0]])
    assert exchange(resident, brought, scores, [1], times=times).tolist() == [[True, False, True, True]]
