"""Write a random-weight model of a real architecture as the hub has it: sharded files, a tensor per expert.

For measuring with experts that do not fit into memory. Weights are bfloat16, made and written one tensor
after the other, so it takes little memory itself. The tokenizer is the tiny model's, with its 2048 tokens.

    python benchmarks/disk_model.py FOLDER --family qwen3_moe --layers 6 --experts 64
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

INDEX_NAME = "model.safetensors.index.json"
# Sizes of Qwen3-30B-A3B, OLMoE-1B-7B and Mixtral-8x7B; layers and experts are cut by arguments.
FAMILIES = {
    "qwen3_moe": {
        "hidden_size": 2048,
        "expert": 768,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "top": 8,
    },
    "olmoe": {
        "hidden_size": 2048,
        "expert": 1024,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "top": 8,
    },
    "mixtral": {
        "hidden_size": 4096,
        "expert": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "top": 2,
    },
}
Shapes = dict[str, tuple[int, ...]]


def config_of(family: str, *, layers: int, experts: int, top_k: int | None, expert_size: int | None) -> Any:
    """The configuration of a cut model."""
    from transformers import MixtralConfig, OlmoeConfig, Qwen3MoeConfig

    sizes = FAMILIES[family]
    common: dict[str, Any] = {
        "hidden_size": sizes["hidden_size"],
        "num_hidden_layers": layers,
        "num_attention_heads": sizes["num_attention_heads"],
        "num_key_value_heads": sizes["num_key_value_heads"],
        "num_experts_per_tok": min(top_k or sizes["top"], experts),
        "vocab_size": 2048,
        "max_position_embeddings": 4096,
        "dtype": "bfloat16",
    }
    inner = expert_size or sizes["expert"]
    if family == "qwen3_moe":
        config: Any = Qwen3MoeConfig(
            **common, num_experts=experts, moe_intermediate_size=inner, head_dim=128, norm_topk_prob=True
        )
        config.architectures = ["Qwen3MoeForCausalLM"]
    elif family == "olmoe":
        config = OlmoeConfig(**common, num_experts=experts, intermediate_size=inner)
        config.architectures = ["OlmoeForCausalLM"]
    else:
        config = MixtralConfig(**common, num_local_experts=experts, intermediate_size=inner)
        config.architectures = ["MixtralForCausalLM"]
    return config


def shapes_of(config: Any) -> Shapes:
    """Names and shapes of all tensors as checkpoints of the family have them, in the model's order."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    shapes: Shapes = {}
    mixtral = config.model_type == "mixtral"
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    for name, tensor in model.state_dict().items():
        shape = tuple(tensor.shape)
        stem, fused, matrix = name.rpartition(".experts.")
        if mixtral:
            stem = stem.replace(".mlp", ".block_sparse_moe")
            name = re.sub(r"\.mlp\.gate\.", ".block_sparse_moe.gate.", name)
        if not fused:
            shapes[name] = shape
        elif matrix == "gate_up_proj":
            for expert in range(shape[0]):
                for one in (gate, up):
                    shapes[f"{stem}.experts.{expert}.{one}.weight"] = (shape[1] // 2, shape[2])
        else:
            for expert in range(shape[0]):
                shapes[f"{stem}.experts.{expert}.{down}.weight"] = shape[1:]
    return shapes


def shards_of(shapes: Shapes, *, shard_bytes: int) -> list[list[str]]:
    """Tensors of each file: layer after layer while they fit, then by name, as safetensors writes them."""
    shards: list[list[str]] = [[]]
    used = 0
    for name in sorted(shapes, key=_place):
        size = _size_bytes(shapes[name])
        if shards[-1] and used + size > shard_bytes:
            shards.append([])
            used = 0
        shards[-1].append(name)
        used += size
    return [sorted(shard) for shard in shards]


def _place(name: str) -> tuple[int, int]:
    numbers = [int(number) for number in re.findall(r"\.(\d+)\.", name)]
    return (numbers[0] if numbers else -1, numbers[1] if len(numbers) > 1 else -1)


def _size_bytes(shape: tuple[int, ...]) -> int:
    size = 2
    for length in shape:
        size *= length
    return size


def weight(name: str, shape: tuple[int, ...], *, std: float, seed: int) -> Tensor:
    """Random weights that depend on the name and the seed alone."""
    import torch

    if len(shape) == 1:
        return torch.ones(shape, dtype=torch.bfloat16)
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) ^ (seed << 32))
    return torch.empty(shape).normal_(0.0, std, generator=generator).to(torch.bfloat16)


def write_shard(file: Path, names: list[str], shapes: Shapes, *, std: float, seed: int) -> None:
    """Write one file, tensor after tensor, and take it out of the page cache."""
    import torch

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name in names:
        size = _size_bytes(shapes[name])
        header[name] = {"dtype": "BF16", "shape": shapes[name], "data_offsets": [position, position + size]}
        position += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            data = weight(name, shapes[name], std=std, seed=seed)
            stream.write(data.view(torch.uint8).numpy().data)
        stream.flush()
        os.fsync(stream.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def write_model(
    folder: Path, config: Any, *, shard_bytes: int, std: float, seed: int, quiet: bool = False
) -> int:
    """Write a model to a new folder, which appears when all is there; return the bytes of its tensors."""
    from prescope.tiny import tiny_model_path

    if folder.exists():
        raise FileExistsError(f"expected a new folder, got {folder}: remove it or name another")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        shapes = shapes_of(config)
        shards = shards_of(shapes, shard_bytes=shard_bytes)
        total = sum(_size_bytes(shape) for shape in shapes.values())
        weight_map = {}
        for number, names in enumerate(shards, start=1):
            file = partial / f"model-{number:05}-of-{len(shards):05}.safetensors"
            write_shard(file, names, shapes, std=std, seed=seed)
            weight_map |= dict.fromkeys(names, file.name)
            if not quiet:
                print(f"{file.name}: {file.stat().st_size / 1e9:.2f} GB", flush=True)
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
        (partial / INDEX_NAME).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
        config.save_pretrained(partial)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(tiny_model_path() / name, partial / name)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return total


def main() -> None:
    """Write a model as the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--family", choices=sorted(FAMILIES), default="qwen3_moe")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=64, help="per layer")
    parser.add_argument("--top-k", type=int, help="experts per token; default: the family's")
    parser.add_argument("--expert-size", type=int, help="inner size of an expert; default: the family's")
    parser.add_argument("--shard-gb", type=float, default=1.0, help="largest file in 10^9 bytes")
    parser.add_argument("--std", type=float, default=0.02, help="standard deviation of all matrices")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    config = config_of(
        arguments.family,
        layers=arguments.layers,
        experts=arguments.experts,
        top_k=arguments.top_k,
        expert_size=arguments.expert_size,
    )
    started = time.monotonic()
    total = write_model(
        arguments.folder,
        config,
        shard_bytes=int(arguments.shard_gb * 1e9),
        std=arguments.std,
        seed=arguments.seed,
    )
    print(f"{arguments.folder}: {total / 1e9:.2f} GB in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
