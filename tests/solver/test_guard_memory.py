"""What the guard makes of a run of gates, against the whole run reckoned anew at every gate."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prescope.solver.online.guard import GAIN, PLAIN, RESTING, TOTAL, weigh

FADE = Fraction(98, 100)
gates = st.lists(st.tuples(st.integers(1, 1000), st.integers(-1000, 1000)), min_size=1, max_size=120)


@given(run=gates, share=st.integers(1, 400))
def test_the_guard_compares_faded_sums(run, share):
    """A gate counts 0.98 of the one after it; before the first were as many like it as ever count, idle."""
    limit, trust_ns = Fraction(share, 1000), np.zeros(4)
    resting, in_all_ns = False, 0
    gain_ns, plain_ns = Fraction(0), Fraction(run[0][0]) / (1 - FADE)
    for plain, gain in run:
        gain_ns, plain_ns = FADE * gain_ns + gain, FADE * plain_ns + plain
        in_all_ns += 0 if resting else gain
        bar_ns = limit * plain_ns if resting else -limit * plain_ns
        close = abs(gain_ns - bar_ns) < Fraction(1, 10**6) * plain_ns
        rests = weigh(trust_ns, plain, gain, float(limit))
        assert abs(trust_ns[GAIN] - float(gain_ns)) < 1e-6
        assert abs(trust_ns[PLAIN] / float(plain_ns) - 1.0) < 1e-9
        if not close:
            assert rests == (gain_ns < bar_ns)
        assert bool(trust_ns[RESTING]) == rests
        assert trust_ns[TOTAL] == in_all_ns
        resting = rests


def test_at_the_limit_it_goes_on_and_is_taken_up():
    """A loss of just what is allowed is allowed, and a gain of as much is enough."""
    for resting, gain in ((0.0, -50), (1.0, 50)):
        # What was before the gate has faded to nothing.
        for more, rests in ((0, False), (-1, True)):
            trust_ns = np.array([0.0, 1e-300, resting, 0.0])
            assert weigh(trust_ns, 100, gain + more, 0.5) == rests
