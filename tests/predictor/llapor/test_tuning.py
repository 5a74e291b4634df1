"""Tuning while running: only when forecasts are off, bounded, the same every time when synchronous."""

import threading
from functools import cache

import numpy as np
import pytest
import torch

import prescope.predictor.llapor.tuning as tuning
from prescope.instances import decode_batches
from prescope.predictor import make_predictor, replay
from prescope.predictor.llapor import Llapor, save_llapor, train_llapor
from prescope.predictor.llapor.tuning import Tuner, TuningSettings
from prescope.predictor.registry import PredictorContext
from tests.support.hidden_traces import EXPERTS, HIDDEN, LAYERS, SMALL, TOP_K, hidden_trace


@cache
def trained():
    return train_llapor(hidden_trace(), settings=SMALL)


def run(predictor, trace, *, first=0):
    """Mean top-k recall from ``first`` on, all gates and horizons."""
    hits, total = 0, 0
    for step, layer in replay(predictor, trace, decode_batches(trace, 4)):
        for horizon in range(1, LAYERS - layer):
            predictor.predict(layer, horizon)
            named = predictor.predict_tokens(layer, horizon).argsort(axis=1)[:, -TOP_K:]
            truth = trace.topk_ids[step.rows, layer + horizon]
            if step.step >= first:
                hits += (named[:, :, None] == truth[:, None, :]).sum()
                total += truth.size
    return hits / total


def shifted(seed=0):
    return hidden_trace(4, 200, seed=seed, shift=3.0)


def test_tuning_recovers_part_of_what_a_shift_costs_and_the_same_every_time():
    still = run(Llapor(trained()), shifted(), first=120)
    tuned = []
    for _ in range(2):
        tuner = Tuner(trained(), TuningSettings(rate=2e-3), synchronous=True)
        tuned.append(run(Llapor(trained(), tuner=tuner), shifted(), first=120))
        assert tuner.rounds > 0
    assert tuned[0] == tuned[1] > still + 0.02
    # The model that was loaded is left as it was.
    assert run(Llapor(trained()), shifted(), first=120) == still


def test_good_forecasts_are_left_alone():
    tuner = Tuner(trained(), TuningSettings(error=0.5), synchronous=True)
    predictor = Llapor(trained(), tuner=tuner)
    run(predictor, hidden_trace(4, 60, seed=2))
    assert tuner.rounds == 0 and 0 < max(tuner.errors.values()) < 0.5
    assert predictor.networks == trained().networks


def test_a_step_never_waits_for_a_round(monkeypatch):
    free, started = threading.Event(), threading.Event()

    def slow(self, watched, use, *, bounded):
        started.set()
        assert free.wait(20) and bounded

    monkeypatch.setattr(Tuner, "_round", slow)
    tuner = Tuner(trained())
    run(Llapor(trained(), tuner=tuner), shifted())
    assert started.is_set() and not free.is_set()
    free.set()
    tuner.close()


def test_rounds_in_the_background_replace_networks():
    tuner = Tuner(trained(), TuningSettings(seconds=5.0))
    predictor = Llapor(trained(), tuner=tuner)
    run(predictor, shifted())
    tuner.close()
    assert tuner.rounds > 0 and predictor.networks != trained().networks
    run(predictor, shifted(1))
    tuner.close()


def test_a_round_in_the_background_is_bounded_in_time():
    tuner = Tuner(trained(), TuningSettings(iterations=1000, seconds=1e-9))
    run(Llapor(trained(), tuner=tuner), shifted())
    tuner.close()
    steps = sum(
        int(watched.optimizer.state_dict()["state"][0]["step"])
        for watched in tuner._watched.values()
        if watched.rounds
    )
    assert steps == tuner.rounds > 0


def test_memory_is_bounded_and_the_newest_rows_are_kept():
    tuner = Tuner(trained(), TuningSettings(kept=64, error=0.9), synchronous=True)
    run(Llapor(trained(), tuner=tuner), shifted())
    watched = tuner._watched[1]
    assert watched.rows.shape[0] == 64 and watched.filled == 64
    assert (watched.ids >= 0).all()


def test_steps_under_inference_mode_can_be_learnt_from():
    tuner = Tuner(trained(), synchronous=True)
    with torch.inference_mode():
        run(Llapor(trained(), tuner=tuner), shifted())
    assert tuner.rounds > 0


def test_numbers_that_are_not_finite_end_a_round_and_not_the_run(caplog):
    tuner = Tuner(trained(), TuningSettings(rate=1e30), synchronous=True)
    predictor = Llapor(trained(), tuner=tuner)
    run(predictor, shifted())
    for step, layer in replay(predictor, shifted(), decode_batches(shifted(), 4)):
        if layer == 0 and step.step == 3:
            assert np.isfinite(predictor.predict(0, 1).probability).all()


def test_the_next_round_starts_from_the_last_finite_numbers(monkeypatch):
    tuner = Tuner(trained(), synchronous=True)
    predictor = Llapor(trained(), tuner=tuner)
    loss = tuning.loss_of
    monkeypatch.setattr(tuning, "loss_of", lambda *args: loss(*args) * float("nan"))
    run(predictor, shifted())
    assert tuner.rounds == 0
    monkeypatch.setattr(tuning, "loss_of", loss)
    run(predictor, shifted(seed=1))
    assert tuner.rounds > 0


def test_nothing_is_learnt_from_a_step_that_is_not_finite():
    tuner = Tuner(trained(), TuningSettings(window=1, error=1e-6), synchronous=True)
    predictor = Llapor(trained(), tuner=tuner)
    for first in (float("inf"), 0.0):
        predictor.begin_step(2, sequences=np.arange(2))
        for layer in range(LAYERS):
            predictor.observe(layer, torch.full((2, HIDDEN), first), torch.tensor([[0, 1], [2, 3]]), None)
            if layer + 1 < LAYERS:
                assert np.isfinite(predictor.predict(layer, 1).probability).all()
        assert (tuner.rounds > 0) == (first == 0.0)


def test_tuning_is_asked_for_by_name(tmp_path):
    save_llapor(tmp_path, trained())
    context = PredictorContext(
        layers=LAYERS, experts=EXPERTS, top_k=TOP_K, hidden_size=HIDDEN, fingerprint="00c0ffee"
    )
    assert make_predictor(f"llapor:{tmp_path}+tune", context)._tuner is not None
    assert make_predictor(f"llapor:{tmp_path}", context)._tuner is None


@pytest.mark.parametrize("wrong", [{"window": 0}, {"kept": 3}, {"error": 0.0}, {"seconds": 0.0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        TuningSettings(**wrong)
