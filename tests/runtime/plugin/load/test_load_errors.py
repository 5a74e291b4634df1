"""What cannot be built is refused by file and tensor name."""

import json

import pytest
import torch
from tiny_models import FAMILY_NAMES

from prescope.runtime.disk import CheckpointError
from prescope.runtime.plugin import AttachError
from prescope.runtime.plugin.load import build_from_checkpoint

NORM = "model.layers.1.input_layernorm.weight"


def message(folder, error=CheckpointError, **options) -> str:
    with pytest.raises(error) as caught:
        build_from_checkpoint(folder, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda tensors: tensors.pop(NORM), NORM),
        (lambda tensors: tensors.pop("lm_head.weight"), "lm_head.weight"),
        (lambda tensors: tensors.update({"score.weight": torch.ones(2)}), "score.weight"),
        (
            lambda tensors: tensors.update({"model.layers.3.input_layernorm.weight": torch.ones(32)}),
            "model.layers.3.input_layernorm.weight",
        ),
        (
            lambda tensors: tensors.update({NORM: torch.ones(33)}),
            f"{NORM}: expected shape (32,) by config.json, got (33,)",
        ),
        (
            lambda tensors: tensors.update({NORM: torch.ones(32, dtype=torch.int64)}),
            f"{NORM}: expected F64, F32, F16, BF16, got I64",
        ),
        (lambda tensors: tensors.update({NORM: torch.ones(32, 1)}), "got (32, 1)"),
    ],
)
def test_wrong_tensors_are_named_with_their_file(save, rewrite, edit, expected) -> None:
    folder = save()
    rewrite(folder, edit)
    said = message(folder)
    assert expected in said
    assert str(folder) in said
    assert "model.safetensors" in said


EXPERT = "model.layers.2.mlp.experts.4.up_proj.weight"


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda tensors: tensors.pop(EXPERT), EXPERT),
        (lambda tensors: tensors.update({EXPERT: torch.ones(16, 31)}), EXPERT),
        (lambda tensors: tensors.update({EXPERT: torch.ones(16, 32, dtype=torch.int8)}), EXPERT),
        (
            lambda tensors: tensors.update({EXPERT.replace(".4.", ".6."): torch.ones(16, 32)}),
            "model.layers.2.mlp.experts.6.",
        ),
    ],
)
def test_wrong_experts_are_found_before_anything_is_read(save, rewrite, edit, expected) -> None:
    folder = save()
    rewrite(folder, edit)
    read: list[object] = []
    said = message(folder, progress=read.append)
    assert expected in said and "model.safetensors" in said
    assert read == []


@pytest.mark.parametrize(
    "changes", [{"num_local_experts": 5}, {"moe_intermediate_size": 8}, {"num_hidden_layers": 2}]
)
def test_a_configuration_of_another_checkpoint(save, changes) -> None:
    folder = save()
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    assert str(folder) in message(folder)


def test_experts_that_agree_with_each_other_but_not_with_the_configuration(save, rewrite) -> None:
    folder = save()

    def narrow(tensors) -> None:
        for name in [name for name in tensors if name.endswith("down_proj.weight")]:
            tensors[name] = tensors[name][:31].contiguous()

    rewrite(folder, narrow)
    assert "down_proj" in message(folder)


def test_experts_in_other_layers_than_the_configuration_says(save) -> None:
    folder = save()
    path = folder / "config.json"
    changed = json.loads(path.read_text()) | {"num_hidden_layers": 4, "mlp_only_layers": [1]}
    path.write_text(json.dumps(changed))
    assert "decoder layers (0, 2, 3) by config.json, got them in (0, 1, 2)" in message(folder)


def test_many_missing_tensors_are_counted(save, rewrite) -> None:
    folder = save()

    def drop(tensors) -> None:
        for name in [name for name in tensors if "norm" in name]:
            del tensors[name]

    rewrite(folder, drop)
    assert "and 8 more: the checkpoint is incomplete" in message(folder)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_missing_router_is_named_as_the_model_names_it(save, rewrite, family) -> None:
    folder = save(family)
    rewrite(folder, lambda tensors: tensors.pop(next(name for name in tensors if ".gate." in name)))
    assert ".mlp.gate.weight" in message(folder)


def test_a_truncated_file_is_named(save) -> None:
    folder = save(shard="20KB")
    shard = sorted(folder.glob("*.safetensors"))[1]
    shard.write_bytes(shard.read_bytes()[:-100])
    assert shard.name in message(folder)


def test_a_lost_shard_is_named(save) -> None:
    folder = save(shard="20KB")
    shard = sorted(folder.glob("*.safetensors"))[1]
    shard.unlink()
    assert shard.name in message(folder)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "llama"}, "among qwen3_moe, mixtral, olmoe, got 'llama'"),
        ({"model_type": None}, "got None"),
        ({"quantization_config": {"quant_method": "fp8"}}, "expected unquantised weights"),
        ({"hidden_size": "wide"}, "expected a configuration that transformers accepts"),
        ({"dtype": "int8"}, "expected dtype to be float32, bfloat16, float16 or 'auto'"),
    ],
)
def test_a_configuration_that_cannot_be_served(save, changes, expected) -> None:
    folder = save()
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    assert expected in message(folder, AttachError)


@pytest.mark.parametrize("content", ["", "{", "[1]", "\udcff"])
def test_a_broken_configuration(save, content) -> None:
    folder = save()
    (folder / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert str(folder / "config.json") in message(folder, AttachError)


def test_no_folder_and_no_configuration(save, tmp_path) -> None:
    assert "no such folder" in message(tmp_path / "nowhere", AttachError)
    folder = save()
    assert "no such folder" in message(folder / "model.safetensors", AttachError)
    (folder / "config.json").unlink()
    assert "without config.json" in message(folder, AttachError)


def test_no_weights(save) -> None:
    folder = save()
    (folder / "model.safetensors").unlink()
    assert str(folder) in message(folder)


@pytest.mark.parametrize("dtype", ["int8", torch.float64, 3])
def test_an_element_type_that_is_not_served(save, dtype) -> None:
    assert "expected dtype" in message(save(), AttachError, dtype=dtype)
