"""Experts are found under every family's names; what is missing or does not fit is named."""

from pathlib import Path

import pytest
import torch
from disk_checkpoints import STYLES, dense_tensors, expert_tensors, write_file

from prescope.runtime.disk import CheckpointError, DiskStore
from prescope.runtime.disk.layout import Segment, consecutive_runs, merged

QWEN = "model.layers.{}.mlp.experts.{}.{}_proj.weight"


@pytest.mark.parametrize("style", STYLES)
def test_the_face_of_a_store(style: str, tmp_path: Path) -> None:
    tensors = expert_tensors(style, layers=(1, 3), experts=3, hidden=8, inner=4)
    write_file(tmp_path / "model.safetensors", tensors | dense_tensors())
    with DiskStore.open(
        tmp_path, layers=2, experts=3, gate_up_shape=(8, 8), down_shape=(8, 4), dtype=torch.bfloat16
    ) as store:
        assert (store.layers, store.experts, store.dtype) == (2, 3, torch.bfloat16)
        assert store.decoder_layers == (1, 3)
        assert (store.elements(0), store.row_bytes(0), store.size_bytes) == (96, 192, 6 * 192)
        assert store.expert_names == set(tensors)
        views = store.views(1, torch.arange(96.0))
        assert {name: tuple(view.shape) for name, view in views.items()} == {
            "gate_up_proj": (8, 8),
            "down_proj": (8, 4),
        }


def test_layers_may_differ_in_size(tmp_path: Path) -> None:
    tensors = expert_tensors("qwen", layers=[0], inner=4) | expert_tensors("qwen", layers=[1], inner=6)
    write_file(tmp_path / "model.safetensors", tensors)
    with DiskStore.open(tmp_path) as store:
        assert [store.elements(layer) for layer in range(2)] == [96, 144]
        assert store.new_slots(2).shape[1] == store.slot_elements(1)


def test_a_model_without_the_prefix_and_with_a_longer_one(tmp_path: Path) -> None:
    for prefix in ("", "model.language_model."):
        tensors = {
            name.replace("model.", prefix, 1): tensor for name, tensor in expert_tensors("fused").items()
        }
        write_file(tmp_path / "model.safetensors", tensors)
        with DiskStore.open(tmp_path) as store:
            assert store.layers == 2


def change(name: str, tensor: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint with one replaced or, with ``None``, left out."""
    tensors = expert_tensors("qwen")
    if tensor is None:
        del tensors[name]
    else:
        tensors[name] = tensor
    return tensors


NOT_SERVED = {
    "no experts": (dense_tensors(), {}, "expected tensors such as"),
    "missing matrix": (change(QWEN.format(1, 2, "up"), None), {}, QWEN.format(1, 2, "up")),
    "missing down": (change(QWEN.format(0, 0, "down"), None), {}, QWEN.format(0, 0, "down")),
    "missing expert": (
        {
            name: tensor
            for name, tensor in expert_tensors("qwen").items()
            if "layers.1.mlp.experts.1" not in name
        },
        {},
        QWEN.format(1, 1, "gate"),
    ),
    "missing last expert": (
        {
            name: tensor
            for name, tensor in expert_tensors("qwen").items()
            if "layers.1.mlp.experts.2" not in name
        },
        {},
        QWEN.format(1, 2, "gate"),
    ),
    "missing mixtral": (
        {
            name: tensor
            for name, tensor in expert_tensors("mixtral").items()
            if "0.block_sparse_moe.experts.2.w3" not in name
        },
        {},
        "model.layers.0.block_sparse_moe.experts.2.w3.weight: expected this tensor",
    ),
    "missing fused": (
        {
            name: tensor
            for name, tensor in expert_tensors("fused").items()
            if "1.mlp.experts.down" not in name
        },
        {},
        "model.layers.1.mlp.experts.down_proj: expected this tensor",
    ),
    "layers": (
        expert_tensors("qwen"),
        {"layers": 3},
        r"expected 3 MoE layers, got 2 \(decoder layers 0, 1\)",
    ),
    "fewer experts": (expert_tensors("qwen"), {"experts": 2}, r"expected an expert in \[0, 1\], got 2"),
    "more experts": (expert_tensors("qwen"), {"experts": 4}, QWEN.format(0, 3, "gate")),
    "fused experts": (expert_tensors("fused"), {"experts": 4}, "expected 4 experts, got 3"),
    "another shape": (
        change(QWEN.format(1, 1, "up"), torch.zeros(4, 9)),
        {},
        r"layers\.1\.mlp\.experts\.1\.up_proj\.weight: expected shape \[4, 8\] for one expert, got \[4, 9\]",
    ),
    "transposed": (
        change(QWEN.format(0, 1, "down"), torch.zeros(4, 8)),
        {},
        r"expected shape \[8, 4\].*got \[4, 8\]",
    ),
    "not the model's": (
        expert_tensors("qwen"),
        {"down_shape": (8, 5), "gate_up_shape": (10, 8)},
        r"expected shape",
    ),
    "a vector": (
        change(QWEN.format(1, 1, "up"), torch.zeros(32)),
        {},
        r"expected a matrix, got shape \[32\]",
    ),
    "fused without experts": (
        expert_tensors("fused") | {"model.layers.0.mlp.experts.down_proj": torch.zeros(8, 4)},
        {},
        r"expected \[experts, rows, columns\], got shape \[8, 4\]",
    ),
    "bias": (
        expert_tensors("fused") | {"model.layers.0.mlp.experts.gate_up_proj_bias": torch.zeros(3, 8)},
        {},
        "gate_up_proj_bias: expected expert weights",
    ),
    "scales": (
        expert_tensors("qwen") | {"model.layers.0.mlp.experts.0.up_proj.weight_scale_inv": torch.zeros(1)},
        {},
        "up_proj.weight_scale_inv: expected expert weights",
    ),
    "quantised": (
        change(QWEN.format(1, 1, "up"), torch.zeros(4, 8).to(torch.float8_e4m3fn)),
        {},
        r"up_proj\.weight: expected F64, F32, F16, BF16, got F8_E4M3: quantised",
    ),
    "both ways": (
        expert_tensors("qwen") | expert_tensors("fused"),
        {},
        "(expected expert 0 once|either fused or apart)",
    ),
    "twice": (expert_tensors("qwen") | expert_tensors("mixtral"), {}, "expected expert 0 once, got it in"),
    "two stacks": (
        expert_tensors("qwen") | {f"draft.{name}": tensor for name, tensor in expert_tensors("qwen").items()},
        {},
        r"expected one stack of layers with experts, got draft\.model\.layers, model\.layers",
    ),
    "several types": (
        change(QWEN.format(1, 1, "up"), torch.zeros(4, 8).to(torch.bfloat16)),
        {},
        "expected experts of one type, got BF16, F32: pass dtype=",
    ),
}


@pytest.mark.parametrize("case", NOT_SERVED)
def test_what_cannot_be_served_is_named(case: str, tmp_path: Path) -> None:
    tensors, options, message = NOT_SERVED[case]
    file = tmp_path / "model.safetensors"
    write_file(file, tensors)
    with pytest.raises(CheckpointError, match=message) as caught:
        DiskStore.open(tmp_path, **options)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.complex64])
def test_rows_are_of_a_plain_floating_type(dtype: torch.dtype, tmp_path: Path) -> None:
    write_file(tmp_path / "model.safetensors", expert_tensors("qwen"))
    with pytest.raises(ValueError, match="expected float64, float32, float16 or bfloat16 rows"):
        DiskStore.open(tmp_path, dtype=dtype)


def test_only_what_follows_in_one_file_and_one_type_is_read_together() -> None:
    first = Segment(0, "F32", 0, 0, 4)
    follows = Segment(0, "F32", 16, 4, 4)
    for other in (
        follows._replace(file=1),
        follows._replace(dtype="F16"),
        follows._replace(offset_bytes=20),
        follows._replace(offset_bytes=8),
    ):
        assert consecutive_runs((first, other)) == ((first,), (other,))
        assert merged([first, other]) == (first, other)
    assert merged([first, follows]) == (Segment(0, "F32", 0, 0, 8),)
    elsewhere = follows._replace(first=8)
    assert merged([first, elsewhere]) == (first, elsewhere)
    assert consecutive_runs((first, elsewhere)) == ((first, elsewhere),)
