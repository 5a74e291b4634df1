"""A model built from a checkpoint is the one that transformers loads, without its experts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from expert_filling import fill_experts
from tiny_models import FAMILY_NAMES, prompts
from transformers import AutoModelForCausalLM

from prescope.runtime.plugin import moe_layers
from prescope.runtime.plugin.load import LoadProgress, build_from_checkpoint


def reference(folder: Path, dtype: Any = "auto") -> Any:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True).eval()
    model.set_experts_implementation("eager")
    return model


def logits(model: Any) -> torch.Tensor:
    model.set_experts_implementation("eager")
    with torch.no_grad():
        result: torch.Tensor = model(**prompts(3, 7)).logits
    return result


def is_expert(name: str) -> bool:
    return ".experts." in name


@pytest.mark.parametrize("shard", [None, "20KB"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_logits_equal_those_of_from_pretrained(save, family, dtype, shard) -> None:
    folder = save(family, dtype=dtype, shard=shard)
    assert len(list(folder.glob("*.safetensors"))) == 1 or shard
    assert (folder / "model.safetensors.index.json").exists() == (shard is not None)
    model, checkpoint = build_from_checkpoint(folder)
    assert all(
        weight.is_meta == is_expert(name) and weight.dtype == dtype
        for name, weight in model.named_parameters()
    )
    assert not any(buffer.is_meta for buffer in model.buffers())
    assert not model.training
    fill_experts(model, checkpoint)
    assert torch.equal(logits(model), logits(reference(folder)))


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_everything_but_the_experts_is_as_from_pretrained_leaves_it(save, family) -> None:
    folder = save(family)
    model, _ = build_from_checkpoint(folder)
    other = reference(folder)
    assert list(model.state_dict()) == list(other.state_dict())
    dense = {name: weight for name, weight in model.state_dict().items() if not is_expert(name)}
    assert all(torch.equal(other.state_dict()[name], weight) for name, weight in dense.items())
    buffers = dict(other.named_buffers())
    assert buffers and buffers.keys() == dict(model.named_buffers()).keys()
    assert all(torch.equal(buffers[name], buffer) for name, buffer in model.named_buffers())
    shapes = {name: weight.shape for name, weight in model.named_parameters()}
    assert shapes == {name: weight.shape for name, weight in other.named_parameters()}
    assert model.generation_config.to_dict() == other.generation_config.to_dict()
    kept = ("_attn_implementation", "dtype", "tie_word_embeddings", "eos_token_id")
    assert all(getattr(model.config, name) == getattr(other.config, name) for name in kept)
    assert len(moe_layers(model)) == 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, "float32", torch.float16])
def test_weights_are_converted_when_another_type_is_asked_for(save, dtype) -> None:
    folder = save(dtype=torch.bfloat16)
    model, checkpoint = build_from_checkpoint(folder, dtype)
    other = reference(folder, dtype)
    fill_experts(model, checkpoint)
    assert logits(model).dtype == other.dtype
    assert torch.equal(logits(model), logits(other))


def tie(model: Any) -> None:
    model.config.tie_word_embeddings = True
    model.lm_head.weight = model.model.embed_tokens.weight


def test_tied_embeddings_are_one_tensor(save) -> None:
    folder = save(change=tie)
    model, checkpoint = build_from_checkpoint(folder)
    assert "lm_head.weight" not in checkpoint.names
    assert model.lm_head.weight is model.model.embed_tokens.weight
    fill_experts(model, checkpoint)
    assert torch.equal(logits(model), logits(reference(folder)))


@pytest.mark.parametrize("equal", [True, False])
def test_tied_by_the_configuration_but_stored_twice(save, rewrite, equal: bool) -> None:
    folder = save(change=tie)

    def add(tensors: dict[str, torch.Tensor]) -> None:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone() * (1 if equal else 2)

    rewrite(folder, add)
    model, checkpoint = build_from_checkpoint(folder)
    other = reference(folder)
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == equal
    fill_experts(model, checkpoint)
    assert torch.equal(logits(model), logits(other))


def test_generation_settings_are_kept(save) -> None:
    def change(model: Any) -> None:
        model.generation_config.update(do_sample=True, top_k=7, temperature=0.25)

    folder = save(change=change)
    settings = build_from_checkpoint(folder)[0].generation_config
    assert (settings.do_sample, settings.top_k, settings.temperature) == (True, 7, 0.25)
    (folder / "generation_config.json").unlink()
    model, _ = build_from_checkpoint(folder)
    assert model.generation_config.to_dict() == reference(folder).generation_config.to_dict()
    assert model.generation_config.eos_token_id == 5


def test_frequencies_that_old_checkpoints_stored_are_skipped(save, rewrite) -> None:
    folder = save()
    stored = "model.layers.0.self_attn.rotary_emb.inv_freq"
    rewrite(folder, lambda tensors: tensors.update({stored: torch.ones(4)}))
    model, checkpoint = build_from_checkpoint(folder)
    fill_experts(model, checkpoint)
    assert torch.equal(logits(model), logits(reference(folder)))


def test_dense_layers_between_are_loaded(save) -> None:
    from transformers import Qwen3MoeForCausalLM

    def change(model: Any) -> None:
        model.config.mlp_only_layers = [1]
        model.model.layers[1] = Qwen3MoeForCausalLM(model.config).model.layers[1]

    folder = save(change=change)
    model, checkpoint = build_from_checkpoint(folder)
    assert [layer.name for layer in moe_layers(model)] == [f"model.layers.{n}.mlp.experts" for n in (0, 2)]
    fill_experts(model, checkpoint)
    assert torch.equal(logits(model), logits(reference(folder)))


def test_each_dense_tensor_is_read_once(save, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(shard="20KB")
    seen: list[LoadProgress] = []
    _, checkpoint = build_from_checkpoint(folder, progress=seen.append)
    names = [progress.tensor for progress in seen]
    assert sorted(names) == sorted(name for name in checkpoint.names if not is_expert(name))
    entries = [checkpoint.tensor(name) for name in names]
    places = [(entry.file, entry.offset_bytes) for entry in entries]
    assert places == sorted(places)
    assert [progress.done_bytes for progress in seen] == sorted(progress.done_bytes for progress in seen)
    assert {progress.total_bytes for progress in seen} == {seen[-1].done_bytes}


def test_nothing_of_transformers_stays_changed(save) -> None:
    import torch.nn.init
    from transformers import PreTrainedModel
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts

    before = Qwen3MoeExperts.__init__, torch.nn.init.normal_, PreTrainedModel.init_weights
    model, _ = build_from_checkpoint(save())
    assert before == (Qwen3MoeExperts.__init__, torch.nn.init.normal_, PreTrainedModel.init_weights)
    assert not Qwen3MoeExperts(model.config).gate_up_proj.is_meta
