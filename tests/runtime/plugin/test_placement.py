"""How a budget becomes residents and slots, and what the default predictor asks the gates."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import FAMILY_NAMES, prompts, random_model

from prescope.runtime.plugin import AttachError, moe_layers
from prescope.runtime.plugin.placement import divide_budget, residents_of_budget
from prescope.runtime.plugin.request import random_token_popularity
from prescope.runtime.plugin.stale_router import StaleRouter


@pytest.mark.parametrize(
    ("fitting", "slots", "expected"),
    [
        (40, None, (40, 0)),
        (39, None, (30, 9)),
        (8, None, (6, 2)),
        (1, None, (0, 1)),
        (8, 3, (5, 3)),
        (8, 8, (0, 8)),
        (8, 0, (8, 0)),
        (60, 5, (40, 5)),
    ],
)
def test_a_budget_is_divided_by_the_rule(fitting, slots, expected):
    assert divide_budget(fitting * 10 + 9, row_bytes=10, layers=4, experts=10, slots=slots) == expected


def test_slots_are_capped_and_too_little_memory_names_the_least():
    assert divide_budget(400, row_bytes=1, layers=100, experts=100, slots=None) == (352, 48)
    with pytest.raises(AttachError, match=r"at least 30 B \(30 bytes\) for 3 slots of 10 B, got 29 B"):
        divide_budget(29, row_bytes=10, layers=4, experts=10, slots=3)


@given(seed=st.integers(0, 2**16), residents=st.integers(0, 15))
def test_residents_are_the_most_popular_and_evenly_spread(seed, residents):
    popularity = np.random.default_rng(seed).random((3, 5))
    chosen = residents_of_budget(popularity, residents)
    sizes = [len(row) for row in chosen]
    assert sum(sizes) == residents
    assert max(sizes) - min(sizes) <= 1
    ranks = (-popularity).argsort(axis=1)
    for row, rank, size in zip(chosen, ranks, sizes, strict=True):
        assert set(row) == set(rank[:size].tolist())
    # Layers with one more are those where it is used most.
    gains = [popularity[layer, rank[residents // 3]] for layer, rank in enumerate(ranks) if residents < 15]
    more = [gain for gain, size in zip(gains, sizes, strict=False) if size > residents // 3]
    fewer = [gain for gain, size in zip(gains, sizes, strict=False) if size == residents // 3]
    assert not more or not fewer or min(more) >= max(fewer)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_stale_gate_sees_what_the_targets_norm_would_make(family):
    model = random_model(family)
    layers = moe_layers(model)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for layer in layers:
            layer.norm.weight.copy_(torch.rand(32, generator=generator) + 0.1)
        residual = torch.randn(50, 32, generator=generator)
        asked = StaleRouter(layers)(0, 2, layers[0].norm(residual))
        assert torch.equal(asked, layers[2].router(layers[2].norm(residual))[2])
        # A channel that the source's norm removed cannot be brought back: the hidden state is used as it is.
        layers[0].norm.weight[4] = 0
        hidden = layers[0].norm(residual)
        assert torch.equal(StaleRouter(layers)(0, 2, hidden), layers[2].router(hidden)[2])


def test_popularity_of_random_tokens_is_what_the_routers_chose():
    model = random_model()
    layers = moe_layers(model)
    shares = random_token_popularity(model, layers, 6, seed=5)
    assert shares.sum(axis=1) == pytest.approx(2.0)
    assert (shares == random_token_popularity(model, layers, 6, seed=5)).all()
    assert (shares != random_token_popularity(model, layers, 6, seed=6)).any()
    # A router that always names expert 3 first makes it everybody's.
    with torch.no_grad():
        model(**prompts(1, 2))
        router = layers[1].router
        stock = router.forward
        router.forward = lambda hidden: (
            *stock(hidden)[:2],
            torch.tensor([[3, 1]]).expand(hidden.shape[0], 2),
        )
        assert random_token_popularity(model, layers, 6, seed=5)[1].tolist() == [0, 1, 0, 1, 0, 0]
