"""The synthetic generator: seeded, in shape, skewed as declared."""

import numpy as np
import pytest

from prescope.formulation import machine_names, model_names, model_shape
from prescope.instances import (
    synthetic_demand,
    synthetic_instance,
    synthetic_popularity,
    synthetic_settings,
)


@pytest.mark.parametrize("model", model_names())
def test_every_model_has_instances_of_its_shape(model: str) -> None:
    shape = model_shape(model)
    instance = synthetic_instance(model, "a100-pcie4", 8, 3)
    counts = instance.demand.counts
    assert counts.shape == (shape.moe_layers, shape.experts)
    assert (counts.sum(axis=1) == 8 * shape.top_k).all()
    assert counts.max() <= 8
    assert {len(row) for row in instance.residents} == {shape.experts // 4}
    assert instance.slots == synthetic_settings().slots[model]
    assert instance.lookahead == shape.moe_layers
    assert instance == synthetic_instance(model, "a100-pcie4", 8, 3)


def test_settings_name_exactly_the_models_of_the_presets() -> None:
    assert set(synthetic_settings().slots) == set(model_names())


@pytest.mark.parametrize("machine", machine_names())
def test_routing_is_the_same_on_every_machine(machine: str) -> None:
    instance = synthetic_instance("olmoe-1b-7b", machine, 4, 0)
    assert instance.demand == synthetic_demand(model_shape("olmoe-1b-7b"), 4, 0)
    assert instance.host_computes == (machine != "nvme-ram")


def test_seed_step_and_model_each_change_the_routing() -> None:
    base = synthetic_demand(model_shape("deepseek-v2-lite"), 8, 0)
    twin = model_shape("moonlight-16b-a3b")
    assert (twin.moe_layers, twin.experts, twin.top_k) == (26, 64, 6), "the same shape as deepseek-v2-lite"
    assert base != synthetic_demand(twin, 8, 0)
    assert base != synthetic_demand(model_shape("deepseek-v2-lite"), 8, 1)
    assert base != synthetic_demand(model_shape("deepseek-v2-lite"), 8, 0, step=1)


def test_long_run_counts_follow_the_popularity() -> None:
    shape = model_shape("olmoe-1b-7b")
    popularity = synthetic_popularity(shape, 5)
    counts = np.sum([synthetic_demand(shape, 64, 5, step=step).counts for step in range(40)], axis=0)
    for layer in range(shape.moe_layers):
        assert np.corrcoef(popularity[layer], counts[layer])[0, 1] > 0.9
        ranked = np.sort(popularity[layer])[::-1]
        assert ranked[0] / ranked[15] == pytest.approx(16**0.8)


def test_drift_makes_batches_more_uneven_than_independent_draws() -> None:
    """With drift the counts of one expert over batches vary more than a binomial would."""
    shape = model_shape("olmoe-1b-7b")
    counts = np.stack([synthetic_demand(shape, 256, 1, step=step).counts for step in range(20)])
    mean = counts.mean(axis=0)
    binomial = mean * (1 - mean / 256)
    assert np.median(counts.var(axis=0, ddof=1) / binomial) > 3


def test_overrides_reach_the_instance() -> None:
    instance = synthetic_instance(
        "mixtral-8x7b", "lab", 1, 0, link_bytes_per_s=12 * 10**9, lookahead=1, slots=2, resident_fraction=0.5
    )
    assert instance.costs.link.bytes_per_s == 12 * 10**9
    assert "12000000000" in instance.costs.source and "12000000000" in instance.name
    assert (instance.lookahead, instance.slots, len(instance.residents[0])) == (1, 2, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gpt-5", "lab", 1, 0), "expected a model among"),
        (("olmoe-1b-7b", "abacus", 1, 0), "expected a machine among"),
        (("olmoe-1b-7b", "lab", 0, 0), "expected batch in"),
        (("olmoe-1b-7b", "lab", 1, -1), "expected seed in"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[str, str, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        synthetic_instance(*arguments)
