"""Fingerprints are those of the shape: the same with and without weights, attached or not."""

import getpass
import os
import platform
from pathlib import Path

import pytest
import torch
from tiny_models import FAMILY_NAMES, random_model

from prescope.instances import ModelFingerprint
from prescope.runtime.plugin import AttachError, attach, expert_bytes
from prescope.runtime.profile import engine_threads, fingerprint_of, this_machine, usable_cores


def test_a_fingerprint_holds_what_the_times_depend_on() -> None:
    model = random_model("qwen3_moe", layers=3, experts=6)
    expert_parameters = 3 * 6 * (32 * 32 + 32 * 16)
    total = sum(weight.numel() for weight in model.parameters())
    assert fingerprint_of(model) == ModelFingerprint(
        family="qwen3_moe",
        layers=3,
        decoder_layers=3,
        experts=6,
        top_k=2,
        gate_up_shape=(32, 32),
        down_shape=(32, 16),
        dense_parameters=total - expert_parameters,
        dtype="float32",
    )


@pytest.mark.parametrize("family", FAMILY_NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_model_configuration_and_attached_model_agree(family: str, dtype: torch.dtype) -> None:
    model = random_model(family, dtype=dtype)
    found = fingerprint_of(model)
    assert found.dtype == str(dtype).removeprefix("torch.")
    assert fingerprint_of(model.config, dtype) == found
    with attach(model, 6 * expert_bytes(model)[2], slots=2, backend="sim"):
        assert fingerprint_of(model) == found


def test_layers_without_experts_count_apart() -> None:
    model = random_model("qwen3_moe", layers=3)
    config = type(model.config)(**{**model.config.to_dict(), "mlp_only_layers": [1]})
    found = fingerprint_of(config, torch.float32)
    assert (found.layers, found.decoder_layers) == (2, 3)
    assert "layers: expected 2, got 3" in found.differences(fingerprint_of(model))


def test_other_families_are_refused() -> None:
    from transformers import LlamaConfig

    config = LlamaConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    with pytest.raises(AttachError, match="got model_type='llama'"):
        fingerprint_of(config)


def test_the_machine_is_described_without_names() -> None:
    machine = this_machine()
    assert machine.cores == usable_cores() >= engine_threads() >= 1
    assert machine.memory_bytes > 2**28 and machine.torch == torch.__version__
    text = machine.describe() + repr(machine)
    for name in (platform.node(), str(Path.home()), os.getcwd()):
        assert not name or name not in text
    assert "/" not in text and (getpass.getuser() not in text)
