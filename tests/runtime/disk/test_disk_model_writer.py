"""The benchmark's model writer: files that transformers loads whole, and the same bytes for the same seed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from prescope.runtime.disk import DiskStore


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    path = Path(__file__).resolve().parents[3] / "benchmarks" / "disk_model.py"
    spec = importlib.util.spec_from_file_location("disk_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(writer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The writer with families of the same shapes, small."""
    families = {
        name: sizes | {"hidden_size": 64, "expert": 32, "num_attention_heads": 2, "num_key_value_heads": 2}
        for name, sizes in writer.FAMILIES.items()
    }
    monkeypatch.setattr(writer, "FAMILIES", families)
    return writer


@pytest.mark.parametrize("family", ["qwen3_moe", "olmoe", "mixtral"])
def test_transformers_loads_it_and_the_store_agrees(family: str, small: ModuleType, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    config = small.config_of(family, layers=2, experts=4, top_k=2, expert_size=None)
    total = small.write_model(tmp_path / "m", config, shard_bytes=300_000, std=0.02, seed=3, quiet=True)
    assert len(list((tmp_path / "m").glob("*.safetensors"))) > 1
    model, report = AutoModelForCausalLM.from_pretrained(
        tmp_path / "m", dtype=torch.bfloat16, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert sum(value.numel() * 2 for value in model.state_dict().values()) == total
    with DiskStore.open(tmp_path / "m", layers=2, experts=4) as store:
        for layer, block in enumerate(model.model.layers):
            for expert in range(4):
                views = store.views(layer, store.load_row(layer, expert))
                assert torch.equal(views["gate_up_proj"], block.mlp.experts.gate_up_proj[expert])
                assert torch.equal(views["down_proj"], block.mlp.experts.down_proj[expert])
    small.write_model(tmp_path / "again", config, shard_bytes=300_000, std=0.02, seed=3, quiet=True)
    for file in (tmp_path / "m").iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_nothing_is_left_of_a_model_that_failed(
    small: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small.config_of("olmoe", layers=1, experts=2, top_k=1, expert_size=None)

    def fail(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(small, "write_shard", fail)
    with pytest.raises(KeyboardInterrupt):
        small.write_model(tmp_path / "m", config, shard_bytes=10**9, std=0.02, seed=0, quiet=True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "m").mkdir()
    with pytest.raises(FileExistsError, match="expected a new folder"):
        small.write_model(tmp_path / "m", config, shard_bytes=10**9, std=0.02, seed=0, quiet=True)
