"""Presets: their formulas recomputed by hand, and what they refuse."""

import pytest

from prescope.formulation import LinearTime, Tier, machine_names, model_names, model_shape, preset

SHAPES = {
    "mixtral-8x7b": (32, 8, 2),
    "deepseek-v2-lite": (26, 64, 6),
    "qwen3-30b-a3b": (48, 128, 8),
    "moonlight-16b-a3b": (26, 64, 6),
    "olmoe-1b-7b": (16, 64, 8),
    "qwen1.5-moe-a2.7b": (24, 60, 4),
    "gpt-oss-20b": (24, 32, 4),
    "gpt-oss-120b": (36, 128, 4),
    "deepseek-v3": (58, 256, 8),
}


def test_the_nine_published_shapes():
    assert set(model_names()) == set(SHAPES)
    for name, numbers in SHAPES.items():
        shape = model_shape(name)
        assert (shape.name, shape.moe_layers, shape.experts, shape.top_k) == (name, *numbers)


def test_qwen3_on_an_a100_by_hand():
    costs = preset("qwen3-30b-a3b@a100-pcie4").costs
    assert costs.layers == 48
    # 9437184 bytes at 24 GB/s are 393216 ns, and 10 us of latency.
    assert costs.copy_ns(0) == 403_216
    # 10 us + 9437184 bytes at 1.5 TB/s (6291.456 ns) + 2 * 4.7e6 operations a token at 250 Tflop/s (37.6 ns).
    assert [costs.gpu_ns(0, tokens) for tokens in (0, 1, 100)] == [0, 16_291 + 38, 16_291 + 3_760]
    # 30 us + 9437184 bytes at 120 GB/s (78643.2 ns) + 9.4e6 operations a token at 1.5 Tflop/s (6266.67 ns).
    assert [costs.cpu_ns(0, tokens) for tokens in (0, 1, 3)] == [0, 108_643 + 6_267, 108_643 + 18_800]
    # 250 us at batch 1 grow by 1/256 a token.
    assert [costs.dense_ns(0, tokens) for tokens in (0, 1, 256)] == [0, 250_000 + 977, 500_000]


def test_mixtral_on_a_v100_by_hand():
    costs = preset("mixtral-8x7b@v100-pcie3").costs
    # 352321536 bytes at 12 GB/s: 29360128 ns, and 10 us.
    assert costs.copy_ns(31) == 29_370_128
    # 12 us + 352321536 bytes at 0.9 TB/s (391468.373 ns) + 3.52e8 flop a token at 100 Tflop/s (3520 ns).
    assert costs.gpu_ns(0, 10) == 12_000 + 391_468 + 35_200
    # 30 us + 352321536 bytes at 120 GB/s (2936012.8 ns) + 3.52e8 operations a token at 1.5 Tflop/s.
    assert costs.cpu_ns(0, 1) == 30_000 + 2_936_013 + 234_667


def test_a_host_that_cannot_compute_says_so():
    disk = preset("olmoe-1b-7b@nvme-ram")
    assert (disk.tier, disk.host_computes) == (Tier.DISK, False)
    assert disk.costs.cpu == (LinearTime(fixed_ns=0),)
    assert disk.costs.copy_ns(0) == 80_000 + 8_388_608  # 12582912 bytes at 1.5 GB/s


@pytest.mark.parametrize("machine", machine_names())
@pytest.mark.parametrize("model", model_names())
def test_every_preset_is_complete(model, machine):
    name = f"{model}@{machine}"
    made = preset(name)
    assert (made.name, made.shape) == (name, model_shape(model))
    assert made.costs.layers == made.shape.moe_layers
    assert name in made.costs.source
    assert made.host_computes == (made.tier is Tier.RAM)
    assert made.costs.gpu_ns(0, 1) < made.costs.copy_ns(0)


def test_layers_can_be_chosen():
    assert preset("deepseek-v3@lab", layers=4).costs.layers == 4


@pytest.mark.parametrize("layers", [0, -1])
def test_no_layers_are_refused(layers):
    with pytest.raises(ValueError, match="expected expert_bytes for at least one layer, got none"):
        preset("deepseek-v3@lab", layers=layers)


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("lab", "expected a preset of the form 'model@machine', got 'lab'", ""),
        ("gpt-5@lab", "expected a model among mixtral-8x7b, ", ", got 'gpt-5'"),
        ("deepseek-v3@", "expected a machine among v100-pcie3, ", ", got ''"),
        ("deepseek-v3@lab@lab", "expected a machine among v100-pcie3, ", ", got 'lab@lab'"),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(name, start, end):
    with pytest.raises(ValueError) as refused:
        preset(name)
    assert str(refused.value).startswith(start) and str(refused.value).endswith(end)
