"""Forecasts corrected by what came of the ones before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.solver.online.recalibrate import learn, new_calibration, new_sums, recalibrate

EXPERTS, AHEAD = 24, 3


def run(spoil, *, layers=1500, seed=0, steps=1, start=0):
    """Forecasts of a calibrated predictor, spoiled: what was true, said and made of it, a layer ahead."""
    random = np.random.default_rng(seed)
    sums = new_sums(AHEAD)
    rows = []
    for _ in range(steps):
        calibration = new_calibration(AHEAD, EXPERTS, sums)
        real = random.beta(0.4, 1.6, (layers, EXPERTS))
        counts = (random.random(real.shape) < real).astype(np.int64)
        said = np.clip(spoil(real, counts), 0.0, 1.0)
        for layer in range(-1, layers):
            if layer >= 0:
                learn(calibration, layer, counts[layer])
            ahead = min(AHEAD, layers - 1 - layer)
            chance = said[layer + 1 : layer + 1 + ahead].copy()
            tokens = chance * 1.5
            recalibrate(calibration, layer, chance, tokens, ahead)
            assert np.allclose(tokens, chance * 1.5)
            assert ((chance >= 0.0) & (chance <= 1.0)).all()
            if ahead:
                rows.append((counts[layer + 1], said[layer + 1], chance[0]))
    counts, said, made = (np.array(part[start:]) for part in zip(*rows, strict=True))
    return counts, said, made


def loss(counts, chance):
    return float(((chance - counts) ** 2).mean())


def test_a_calibrated_predictor_is_left_alone():
    counts, said, made = run(lambda real, counts: real)
    assert loss(counts, made) <= loss(counts, said) * 1.002
    assert np.abs(made - said).max() < 0.15


@pytest.mark.parametrize("power", [1 / 3, 3.0])
def test_over_and_under_confident_ones_are_corrected(power):
    counts, said, made = run(lambda real, counts: real**power, start=500)
    honest = loss(counts, said ** (1 / power))
    assert loss(counts, said) > 1.1 * honest
    assert loss(counts, made) - honest < 0.5 * (loss(counts, said) - honest)


def test_of_one_that_says_the_contrary_little_is_believed():
    counts, said, made = run(lambda real, counts: np.where(counts > 0, 0.02, 0.9), start=500)
    # Here the contrary is as good as the truth.
    assert made[counts == 0].max() < 0.1
    assert made[counts > 0].min() > 0.5


def test_what_was_learned_in_a_step_serves_in_the_next():
    counts, said, made = run(lambda real, counts: real ** (1 / 3), layers=300, steps=3, start=700)
    assert abs(made.mean() - counts.mean()) < 0.3 * abs(said.mean() - counts.mean())


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_any_forecast_stays_a_probability(seed):
    # Zeros and ones too; `run` looks at every one of them.
    run(lambda real, counts: np.random.default_rng(seed).integers(0, 3, real.shape) / 2, layers=40, seed=seed)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6))
def test_it_is_the_plain_reckoning(seed):
    random = np.random.default_rng(seed)
    sums = random.random((AHEAD, 16, 3)) * [300.0, 300.0, 1000.0] * (random.random((AHEAD, 16, 1)) < 0.9)
    plain, said_of = sums.copy(), {}
    calibration = new_calibration(AHEAD, EXPERTS, sums)
    for layer in range(-1, 12):
        if layer >= 0:
            counts = random.integers(0, 3, EXPERTS) * (random.random(EXPERTS) < 0.5)
            learn(calibration, layer, counts)
            for row in range(AHEAD):
                if (layer, row) in said_of:
                    said, bands = said_of.pop((layer, row))
                    plain[row] *= 0.998
                    for expert, band in enumerate(bands):
                        plain[row, band] += said[expert], counts[expert] > 0, 1.0
            assert (sums == plain).all()
        # Now and then nothing is known of the layers farther ahead.
        ahead = int(random.integers(0, AHEAD + 1))
        chance = random.choice([0.0, 1.0, 0.25, 0.3, 0.97], (AHEAD, EXPERTS))
        chance *= random.random((AHEAD, 1)) ** 0.1
        tokens = chance * random.uniform(1, 5, chance.shape)
        made, costs = chance.copy(), tokens.copy()
        recalibrate(calibration, layer, made, costs, ahead)
        assert (made[ahead:] == chance[ahead:]).all()
        assert (costs[ahead:] == tokens[ahead:]).all()
        for row in range(ahead):
            bands = np.minimum(np.sqrt(chance[row]) * 16, 15).astype(int)
            said_of[layer + 1 + row, row] = chance[row], bands
            expected, needed, seen = plain[row].T
            with np.errstate(divide="ignore", invalid="ignore"):
                doubt = 100.0 * np.sqrt(expected / seen)
                scale = np.where(expected > 0, (needed + doubt) / (expected + doubt), 1.0)[bands]
            sure = chance[row] * scale > 1.0
            assert (made[row] == np.where(sure, 1.0, chance[row] * scale)).all()
            assert np.allclose(costs[row], tokens[row] * np.where(sure, 1 / np.fmax(chance[row], 0.1), scale))


def test_no_forecast_is_nothing():
    calibration = new_calibration(0, EXPERTS, new_sums(0))
    learn(calibration, 0, np.ones(EXPERTS, dtype=np.int64))
    recalibrate(calibration, 0, np.zeros((0, EXPERTS)), np.zeros((0, EXPERTS)), 0)
