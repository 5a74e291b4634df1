"""What a learned gate rule counts of the steps it hears of, and what gates without tokens say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.solver.residency import GateAverage, GateLearned, StepwiseRule
from prescope.solver.residency.outlook_model import DECAYS

LAYERS, EXPERTS, TOP_K = 2, 5, 2
COSTS = {"fixed_ns": 7.0, "per_token_ns": 3.0}
START = np.full((LAYERS, EXPERTS), TOP_K / EXPERTS)


def step_of(random, tokens):
    counts = np.zeros((LAYERS, EXPERTS), dtype=np.int64)
    for row in counts:
        for _ in range(tokens):
            row[random.choice(EXPERTS, TOP_K, replace=False)] += 1
    return counts


def tell(rule, counts, steps=1.0):
    for layer, row in enumerate(counts):
        rule.observe(layer, row, steps)
    rule.end_step()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), prompts=st.lists(st.booleans(), min_size=1, max_size=12))
def test_every_step_but_prompts_is_counted_with_what_was_known_before_it(seed, prompts):
    random, counted = np.random.default_rng(seed), []
    rule = GateLearned(START, every=4, background=False, **COSTS)
    # Kept as they are handed over: a thread may look at them while the next steps run.
    rule._refit.observe = lambda rows, use: counted.append((rows, use))
    averages, expected = [START.copy() for _ in DECAYS], []
    for prompt in prompts:
        counts = step_of(random, 6 if prompt else 1)
        use = counts * TOP_K / counts.sum(axis=1, keepdims=True)
        if not prompt:
            expected.append((np.concatenate([*averages, np.ones((LAYERS, 1))], axis=1), use))
        tell(rule, counts, 6.0 if prompt else 1.0)
        for place, decay in enumerate(DECAYS):
            for _ in range(6 if prompt else 1):
                averages[place] = (1.0 - decay) * averages[place] + decay * use
    assert len(counted) == len(expected)
    for (rows, use), (said_rows, said_use) in zip(counted, expected, strict=True):
        assert rows == pytest.approx(said_rows) and use == pytest.approx(said_use)


@pytest.mark.parametrize("background", [False, True])
def test_steps_after_a_prompt_are_not_the_future_of_those_before_it(background):
    rule = GateLearned(START, every=10**6, background=background, **COSTS)
    known, sums = [], rule._refit._sums
    sums.add = lambda rows, futures: known.append(len(rows))
    random, ahead = np.random.default_rng(1), sums.settings.ahead
    for steps in (ahead + 2, ahead - 1, ahead):
        tell(rule, step_of(random, 9), 9.0)
        for _ in range(steps):
            tell(rule, step_of(random, 1))
            for one in tuple(rule._waiting):
                one.result()
    rule.close()
    assert len(known) == 3 + 0 + 1


def learned(start, **costs):
    return GateLearned(start, background=False, **costs)


@pytest.mark.parametrize("make", [GateAverage, learned])
def test_a_gate_without_tokens_changes_nothing(make):
    rule, random = make(START, **COSTS), np.random.default_rng(0)
    for _ in range(3):
        tell(rule, step_of(random, 1))
    before = [rule.scores(layer, 1) for layer in range(LAYERS)]
    for layer in range(LAYERS):
        rule.observe(layer, np.zeros(EXPERTS, dtype=np.int64))
    rule.end_step()
    assert np.array_equal(before, [rule.scores(layer, 1) for layer in range(LAYERS)])


class Recorder:
    """A rule that keeps what it is told."""

    name = "recorder"

    def __init__(self):
        self.told = []

    def observe(self, counts):
        self.told.append(counts)

    def scores(self):
        return None


@given(seed=st.integers(0, 10**6), whole=st.lists(st.booleans(), min_size=1, max_size=8))
def test_a_step_wise_rule_is_told_of_the_whole_steps_and_of_no_others(seed, whole):
    random, recorder, expected = np.random.default_rng(seed), Recorder(), []
    rule = StepwiseRule(recorder, layers=LAYERS, experts=EXPERTS)
    for complete in whole:
        counts = step_of(random, 1)
        if complete:
            tell(rule, counts)
            expected.append(counts.tolist())
        else:
            rule.observe(0, counts[0])
            rule.end_step()
    assert [counts.tolist() for counts in recorder.told] == expected
