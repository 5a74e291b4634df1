"""Every measure against a slow plain statement of what it means."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from prescope.predictor.evaluation import (
    Reliability,
    adaptive_ece,
    brier_skill,
    count_error,
    hard_counts,
    recall_within,
    volume_hits,
)

SHAPES = st.tuples(st.integers(0, 6), st.integers(1, 8))
# Few values, so that ties happen.
SAID = st.sampled_from([0.0, 0.01, 0.04, 0.05, 0.2, 0.5, 0.9, 1.0])


@st.composite
def tokens(draw):
    shape = draw(SHAPES)
    said = draw(hnp.arrays(np.float64, shape, elements=SAID))
    return said, draw(hnp.arrays(np.bool_, shape)), draw(st.integers(1, shape[1]))


@st.composite
def batches(draw):
    shape = draw(SHAPES)
    expected = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.5, 1.0, 3.0])))
    return expected, draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 3)))


def plain_best(scores, count):
    return set(sorted(range(len(scores)), key=lambda expert: (-scores[expert], expert))[:count])


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else None


def near(value):
    return None if value is None else pytest.approx(value)


@given(tokens())
def test_recall(case):
    said, chosen, width = case
    plain = mean(
        len(plain_best(row, width) & set(np.flatnonzero(truth))) / truth.sum()
        for row, truth in zip(said, chosen, strict=True)
        if truth.any()
    )
    assert recall_within(said, chosen, width) == near(plain)


@given(tokens())
def test_hard_counts(case):
    said, _, width = case
    named = [expert for row in said for expert in plain_best(row, width)]
    assert hard_counts(said, width).tolist() == [named.count(expert) for expert in range(said.shape[1])]


@given(batches())
def test_count_error(case):
    expected, counts = case
    plain = mean(
        sum(abs(a - b) for a, b in zip(row, truth, strict=True)) / sum(truth)
        for row, truth in zip(expected.tolist(), counts.tolist(), strict=True)
        if sum(truth)
    )
    assert count_error(expected, counts) == near(plain)


@settings(max_examples=50)
@given(batches(), st.integers(1, 3), st.integers(1, 4))
def test_volume_hits_are_the_mean_over_all_ways_to_break_ties(case, named, among):
    expected, counts = case

    def plain(row, truth):
        best = plain_best(row, min(named, len(truth)))
        # Every order of the experts breaks ties in another way; all are equally likely.
        shares = []
        for order in itertools.permutations(range(len(truth))):
            top = sorted(order, key=lambda expert: -truth[expert])[:among]
            top = {expert for expert in top if truth[expert]}
            shares.append(len(best & top) / len(best))
        return mean(shares)

    expected, counts = expected[:, :5], counts[:, :5]
    rows = [plain(row, truth) for row, truth in zip(expected, counts, strict=True) if truth.sum()]
    assert volume_hits(expected, counts, named=named, among=among) == near(mean(rows))


@given(tokens(), st.randoms())
def test_brier_skill(case, rng):
    said, chosen, _ = case
    reference = np.array([rng.random() for _ in range(said.shape[1])])
    plain = [0.0, 0.0]
    for row, truth in zip(said.tolist(), chosen.tolist(), strict=True):
        for expert, happened in enumerate(truth):
            plain[0] += (row[expert] - happened) ** 2
            plain[1] += (reference[expert] - happened) ** 2
    assert brier_skill(said, chosen, reference) == near(1 - plain[0] / plain[1] if plain[1] else None)


def test_the_reference_itself_has_no_skill_and_the_truth_has_all():
    chosen = np.random.default_rng(0).random((500, 4)) < [0.1, 0.2, 0.5, 0.9]
    shares = chosen.mean(axis=0)
    assert brier_skill(np.broadcast_to(shares, chosen.shape), chosen, shares) == pytest.approx(0)
    assert brier_skill(chosen.astype(float), chosen, shares) == 1
    # What a constant guess gets for its calibration: the reason for skill.
    assert adaptive_ece(np.broadcast_to(shares, chosen.shape), chosen) == pytest.approx(0)


@given(tokens(), st.integers(1, 4), st.sampled_from([0.0, 0.05]))
def test_bins_hold_equal_forecasts_together_and_about_equal_numbers(case, count, floor):
    said, happened, _ = case
    seen = Reliability()
    seen.add(said, happened)
    pairs = sorted(
        (value, truth)
        for value, truth in zip(said.reshape(-1).tolist(), happened.reshape(-1).tolist(), strict=True)
        if value >= floor
    )
    groups: dict[int, list] = {}
    for value, same in itertools.groupby(pairs, key=lambda pair: pair[0]):
        same = list(same)
        before = sum(other < value for other, _ in pairs)
        groups.setdefault(min(int((before + len(same) / 2) / len(pairs) * count), count - 1), []).extend(same)
    plain = [(len(group), mean(a for a, _ in group), mean(b for _, b in group)) for group in groups.values()]
    bins = seen.bins(count, floor=floor)
    assert [(one.forecasts, one.said, one.happened) for one in bins] == [
        (number, pytest.approx(a), pytest.approx(b)) for number, a, b in plain
    ]
    error = sum(number * abs(a - b) for number, a, b in plain) / len(pairs) if pairs else None
    assert seen.error(count, floor=floor) == near(error)
    assert adaptive_ece(said, happened, floor=floor, bins=count) == near(error)


def test_parts_merged_are_the_whole():
    rng = np.random.default_rng(1)
    said, happened = rng.random(300), rng.random(300) < 0.3
    whole, left, right = Reliability(), Reliability(), Reliability()
    whole.add(said, happened)
    left.add(said[:100], happened[:100])
    right.add(said[100:], happened[100:])
    left.merge(right)
    for one, other in zip(left.bins(), whole.bins(), strict=True):
        assert (one.forecasts, one.happened) == (other.forecasts, other.happened)
        assert one.said == pytest.approx(other.said)


@pytest.mark.parametrize("measure", [recall_within, count_error])
def test_arrays_that_do_not_belong_together_are_refused(measure):
    extra = (1,) if measure is recall_within else ()
    for said, truth in (((2, 3), (3, 3)), ((3,), (3,)), ((2, 0), (2, 0))):
        with pytest.raises(ValueError, match="expected prediction and truth of one shape"):
            measure(np.zeros(said), np.zeros(truth, dtype=np.bool_), *extra)
    with pytest.raises(ValueError, match="expected finite predictions"):
        measure(np.full((1, 2), np.nan), np.ones((1, 2), dtype=np.bool_), *extra)


def test_probabilities_that_are_none_are_refused():
    for wrong in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match=r"in \[0, 1\]"):
            Reliability().add(np.array([wrong]), np.array([True]))
    with pytest.raises(ValueError, match="equal shapes"):
        Reliability().add(np.zeros(2), np.zeros(3, dtype=bool))
    with pytest.raises(ValueError, match=r"count in \[1, 3\]|expected count"):
        recall_within(np.zeros((1, 3)), np.zeros((1, 3), dtype=bool), 4)
