"""Synthetic routing: seeded, shaped as asked, and as persistent and correlated as its recipe says."""

from dataclasses import replace

import numpy as np
import pytest

from prescope.instances import RoutingRecipe, RoutingTrace, fitted_recipe, recipe_names, synthetic_trace

PLAIN = RoutingRecipe(name="plain", popularity=0.0, strength=0.0, topic=0.0, slow=0.0, memory=0.0, rank=4)


def made(recipe: RoutingRecipe, seed: int = 0, sequences: int = 20, tokens: int = 40) -> RoutingTrace:
    return synthetic_trace(
        recipe,
        model="m",
        layers=4,
        experts=16,
        top_k=3,
        sequences=sequences,
        prompt_tokens=2,
        decode_tokens=tokens,
        seed=seed,
    )


def shared(a: np.ndarray, b: np.ndarray) -> float:
    """Share of experts that two sets of choices, ``[tokens, layers, k]``, have in common."""
    return float((a[..., :, None] == b[..., None, :]).any(axis=-1).mean())


def test_the_seed_and_the_model_fix_everything() -> None:
    recipe = fitted_recipe("gptoss-20b")
    one, two, other = made(recipe, 1), made(recipe, 1), made(recipe, 2)
    assert np.array_equal(one.topk_ids, two.topk_ids)
    assert not np.array_equal(one.topk_ids, other.topk_ids)
    assert one.tokens == 20 * 42 and one.sequences == 20 and int((one.phase == 0).sum()) == 40


def test_without_strength_and_popularity_choices_are_uniform_and_independent() -> None:
    ids = made(PLAIN, sequences=60).topk_ids
    counts = np.bincount(ids[:, 0].ravel(), minlength=16)
    assert counts.min() > 0.75 * counts.mean() and counts.max() < 1.25 * counts.mean()
    assert abs(shared(ids[1:], ids[:-1]) - 3 / 16) < 0.02


def test_topic_and_memory_make_tokens_alike() -> None:
    steady = replace(PLAIN, strength=4.0, topic=0.6)
    slow = replace(PLAIN, strength=4.0, slow=0.9, memory=0.95)
    own = replace(PLAIN, strength=4.0)
    near, far = {}, {}
    for name, recipe in (("steady", steady), ("slow", slow)):
        ids = made(recipe).topk_ids.reshape(20, 42, 4, 3)
        near[name], far[name] = shared(ids[:, 1:], ids[:, :-1]), shared(ids[:, 30:], ids[:, :-30])
    assert min(near.values()) > 0.35
    assert far["steady"] > 0.35 and far["slow"] < near["slow"] - 0.1
    ids = made(own).topk_ids.reshape(20, 42, 4, 3)
    assert shared(ids[:, 1:], ids[:, :-1]) < 0.3


def test_popularity_makes_some_experts_busy() -> None:
    counts = np.sort(np.bincount(made(replace(PLAIN, popularity=1.5)).topk_ids[:, 0].ravel(), minlength=16))
    assert counts[-1] > 8 * counts[0]


@pytest.mark.parametrize("name", recipe_names())
def test_fitted_recipes_are_sound(name: str) -> None:
    recipe = fitted_recipe(name)
    assert recipe.name == name and 0 <= recipe.topic + recipe.slow <= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topic": 0.7, "slow": 0.4}, "topic \\+ slow"),
        ({"memory": 1.0}, "memory in \\[0, 1\\)"),
        ({"rank": 0}, "rank"),
        ({"strength": -1.0}, "strength"),
        ({"popularity": float("nan")}, "popularity"),
    ],
)
def test_bad_recipes_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PLAIN, **change)  # type: ignore[arg-type]


def test_bad_shapes_and_names_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a recipe among"):
        fitted_recipe("x")
    with pytest.raises(ValueError, match="tokens"):
        synthetic_trace(
            PLAIN,
            model="m",
            layers=1,
            experts=2,
            top_k=1,
            sequences=1,
            prompt_tokens=0,
            decode_tokens=0,
            seed=0,
        )
