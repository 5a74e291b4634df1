"""Horizons from recorded routing: what is history, who is resident, what is refused."""

import numpy as np
import pytest

from prescope.instances import build_horizon, choose_residents, fitted_recipe, popularity, synthetic_trace

TRACE = synthetic_trace(
    fitted_recipe("gptoss-20b"), model="small", layers=3, experts=8, top_k=2, sequences=6, prompt_tokens=1,
    decode_tokens=8, seed=1,
)  # fmt: skip
COSTS = "mixtral-8x7b@lab"


def test_residents_are_the_popular_ones_of_the_history_and_not_of_the_steps():
    horizon = build_horizon(TRACE, COSTS, 2, steps=4, slots=1, history=[5]).horizon
    counts = sum(demand.counts for sequence in horizon.history for demand in sequence)
    assert horizon.residents == choose_residents(counts, fraction=0.25)
    assert horizon.residents != choose_residents(popularity(TRACE), fraction=0.25)
    assert [len(sequence) for sequence in horizon.history] == [8] and horizon.steps == 4
    # The steps are those of the first two of the others.
    same = build_horizon(TRACE, COSTS, 2, steps=4, slots=1, sequences=[0, 1]).horizon
    for one, other in zip(horizon.demands, same.demands, strict=True):
        assert np.array_equal(one.counts, other.counts)


def test_history_is_apart_from_the_steps():
    with pytest.raises(ValueError, match="apart from the steps, got sequence 3 in both"):
        build_horizon(TRACE, COSTS, 2, steps=4, slots=1, sequences=[3, 4], history=[0, 3])
    with pytest.raises(ValueError, match="4 sequences that are not history, got 3: 3 of the trace's 6"):
        build_horizon(TRACE, COSTS, 4, steps=4, slots=1, history=range(3))
