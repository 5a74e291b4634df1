"""Scores over a trace: the same numbers as from all forecasts at once, and batches as a server runs them."""

import numpy as np
import pytest
from example_traces import example_trace
from linked_traces import linked_trace

from prescope.instances import NOT_RECORDED, Phase, RoutingTrace, popularity
from prescope.predictor import MovingAverage, Oracle, Popularity
from prescope.predictor.evaluation import (
    Emulation,
    Reliability,
    brier_skill,
    count_error,
    forecasts_from_trace,
    hard_counts,
    recall_within,
    score,
    volume_hits,
)
from prescope.predictor.replay import replay

TRACE = linked_trace(sequences=9, tokens=20, prompt=3)
SHAPE = {"layers": 4, "experts": 6, "top_k": 2}


def average():
    return MovingAverage(**SHAPE)


class Silent:
    """Knows batches only."""

    name = "silent"

    def __init__(self):
        self._inner = Popularity(**SHAPE)

    def __getattr__(self, name):
        if name == "predict_tokens":
            raise AttributeError(name)
        return getattr(self._inner, name)


@pytest.mark.parametrize("maker", [average, Silent])
def test_scores_are_those_of_all_forecasts_together(maker):
    batch, reference = 3, popularity(TRACE)
    scores = score(maker(), TRACE, range(9), batch=batch, horizons=2, reference=reference, keep=5)
    emulation = Emulation(trace=TRACE, sequences=tuple(range(9)), batch=batch)
    whole = [step.step for step, decoding in emulation.steps() if decoding and len(step.rows) == batch]
    assert scores.steps == len(whole)
    seen: dict[tuple[int, int], list] = {}
    predictor = maker()
    for step, layer in replay(predictor, TRACE, (step for step, _ in emulation.steps())):
        for horizon in range(1, min(2, 3 - layer) + 1):
            if step.step not in whole:
                continue
            forecast = predictor.predict(layer, horizon)
            rows = np.repeat(forecast.expected_tokens[None] / batch, batch, axis=0)
            if maker is average:
                rows = predictor.predict_tokens(layer, horizon)
            chosen = np.zeros((batch, 6), dtype=bool)
            np.put_along_axis(chosen, TRACE.topk_ids[step.rows, layer + horizon].astype(int), True, axis=1)
            counts = step.demand.counts[layer + horizon]
            seen.setdefault((layer, horizon), []).append((rows, chosen, forecast, counts))
    assert set(seen) == set(scores.tokens) == set(scores.batches)
    for key, entries in seen.items():
        rows = np.concatenate([entry[0] for entry in entries]).astype(np.float32)
        chosen = np.concatenate([entry[1] for entry in entries])
        tokens, batches = scores.tokens[key], scores.batches[key]
        assert tokens.recall == pytest.approx(recall_within(rows, chosen, 2))
        assert tokens.wide_recall == pytest.approx(recall_within(rows, chosen, 4))
        assert tokens.brier_skill == pytest.approx(brier_skill(rows, chosen, reference[sum(key)]), abs=1e-6)
        expected = np.stack([entry[2].expected_tokens for entry in entries])
        counts = np.stack([entry[3] for entry in entries])
        hard = np.stack([hard_counts(entry[0].astype(np.float32), 2) for entry in entries])
        assert batches.soft_count_error == pytest.approx(count_error(expected, counts))
        assert batches.hard_count_error == pytest.approx(count_error(hard.astype(float), counts))
        assert batches.four_in_six == pytest.approx(volume_hits(expected, counts))
        event = Reliability()
        event.add(np.stack([entry[2].probability for entry in entries]), counts > 0)
        assert batches.event_error == pytest.approx(event.error())
    # What is kept is what the bulk forecasts of the same steps are.
    bulk = {
        step.step: said
        for step, said in forecasts_from_trace(maker(), TRACE, (step for step, _ in emulation.steps()), 2)
    }
    assert len(scores.kept) == 5
    for step, said in scores.kept:
        assert said == bulk[step.step]


def test_batches_that_are_not_full_any_more_are_not_judged():
    trace = linked_trace(sequences=5, tokens=10)
    maker = Popularity(layers=trace.layers, experts=trace.meta.experts, top_k=trace.meta.top_k)
    scores = score(maker, trace, range(5), batch=2, horizons=1, reference=popularity(trace))
    # Two, two and one sequence of ten tokens; the last one is alone.
    assert scores.steps == 20
    assert {tally.tokens for tally in scores.tokens.values()} == {40}


def test_an_oracle_is_never_wrong():
    emulation = Emulation(trace=TRACE, sequences=(0, 1, 2, 3), batch=2)
    oracle = Oracle(steps=[step.demand.counts for step, _ in emulation.steps()])
    scores = score(oracle, TRACE, range(4), batch=2, horizons=3, reference=popularity(TRACE), max_steps=7)
    assert scores.steps == 7
    for tally in scores.batches.values():
        assert tally.batches == 7
        assert tally.soft_count_error == 0
        assert tally.event_error == 0
        assert tally.four_in_six == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 8, 25])
def test_batches_stay_full_and_take_every_token_once(batch):
    trace = linked_trace(sequences=5, tokens=11, prompt=2)
    emulation = Emulation(trace=trace, sequences=(4, 0, 2, 1, 3), batch=batch)
    sizes, rows, prompts = [], [], []
    for step, decoding in emulation.steps():
        assert (trace.phase[step.rows] == (Phase.DECODE if decoding else Phase.PREFILL)).all()
        assert (np.diff(step.rows) > 0).all()
        plain = np.stack(
            [np.bincount(trace.topk_ids[step.rows, at].reshape(-1), minlength=6) for at in range(4)]
        )
        assert np.array_equal(step.demand.counts, plain)
        (rows if decoding else prompts).extend(step.rows.tolist())
        if decoding:
            sizes.append(len(step.rows))
    assert sorted(rows) == np.flatnonzero(trace.phase == Phase.DECODE).tolist()
    assert sorted(prompts) == np.flatnonzero(trace.phase == Phase.PREFILL).tolist()
    assert max(sizes) == batch
    assert sizes == sorted(sizes, reverse=True)
    assert (emulation.piece() is None) == (batch <= 2)


def test_what_was_not_recorded_and_padding_are_left_out():
    base = example_trace(lengths=((2, 6), (2, 6)))
    ids, padding = np.array(base.topk_ids), np.zeros(base.tokens, dtype=bool)
    ids[4, 1, 0] = NOT_RECORDED
    padding[[5, 12]] = True
    trace = RoutingTrace(
        topk_ids=ids, padding=padding, seq_offsets=base.seq_offsets, phase=base.phase, meta=base.meta
    )
    rows = [row for step, _ in Emulation(trace=trace, sequences=(0, 1), batch=1).steps() for row in step.rows]
    assert sorted(rows) == sorted(set(range(16)) - {4, 5, 12})


def test_too_little_is_refused():
    prompts = linked_trace(sequences=3, tokens=0, prompt=4)
    with pytest.raises(ValueError, match="expected recorded decode tokens in the 3 sequences"):
        Emulation(trace=prompts, sequences=(0, 1, 2), batch=1)
    with pytest.raises(ValueError, match="expected at least 500 decoded tokens"):
        Emulation(trace=TRACE, sequences=(0,), batch=500)
    with pytest.raises(ValueError, match=r"sequence in \[0, 8\], got 9"):
        Emulation(trace=TRACE, sequences=(9,), batch=1)

    class Short(Silent):
        def predict_tokens(self, layer, horizon):
            return np.zeros((1, 2))

    with pytest.raises(ValueError, match=r"probabilities of shape \(3, 6\) from 'silent', got \(1, 2\)"):
        score(Short(), TRACE, range(9), batch=3, horizons=1, reference=popularity(TRACE))
