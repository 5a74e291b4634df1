"""Small checkpoints with experts in every way that families store them, and disks that fail on request."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import torch

from prescope.runtime.disk import SystemCalls

STYLES = ("qwen", "mixtral", "fused")
Expert = tuple[int, int]


def expert_tensors(
    style: str,
    *,
    layers: Sequence[int] = (0, 1),
    experts: int = 3,
    hidden: int = 8,
    inner: int = 4,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> dict[str, torch.Tensor]:
    """The expert tensors of a checkpoint by name, random."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float32).to(dtype)

    tensors = {}
    for layer in layers:
        if style == "fused":
            stem = f"model.layers.{layer}.mlp.experts"
            tensors[f"{stem}.gate_up_proj"] = random(experts, 2 * inner, hidden)
            tensors[f"{stem}.down_proj"] = random(experts, hidden, inner)
            continue
        block, gate, up, down = {
            "qwen": ("mlp", "gate_proj", "up_proj", "down_proj"),
            "mixtral": ("block_sparse_moe", "w1", "w3", "w2"),
        }[style]
        for expert in range(experts):
            stem = f"model.layers.{layer}.{block}.experts.{expert}"
            tensors[f"{stem}.{gate}.weight"] = random(inner, hidden)
            tensors[f"{stem}.{up}.weight"] = random(inner, hidden)
            tensors[f"{stem}.{down}.weight"] = random(hidden, inner)
    return tensors


def dense_tensors(hidden: int = 8, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Some tensors beside the experts: routers, a shared expert, integers, a scalar, an empty one."""
    ones = torch.arange(hidden * 3, dtype=torch.float32).reshape(3, hidden).to(dtype)
    return {
        "model.embed_tokens.weight": ones,
        "model.layers.0.mlp.gate.weight": ones * 2,
        "model.layers.0.mlp.shared_expert.gate_proj.weight": ones * 3,
        "model.layers.0.mlp.shared_experts.down_proj.weight": ones * 4,
        "buffers.ids": torch.arange(5),
        "buffers.flag": torch.tensor(True),
        "buffers.none": torch.zeros(0, 4),
    }


def wanted_row(
    tensors: dict[str, torch.Tensor], style: str, layer: int, expert: int, dtype: torch.dtype
) -> torch.Tensor:
    """The row of an expert, put together from whole tensors."""
    if style == "fused":
        stem = f"model.layers.{layer}.mlp.experts"
        parts = [tensors[f"{stem}.gate_up_proj"][expert], tensors[f"{stem}.down_proj"][expert]]
    else:
        block, words = {
            "qwen": ("mlp", ("gate_proj", "up_proj", "down_proj")),
            "mixtral": ("block_sparse_moe", ("w1", "w3", "w2")),
        }[style]
        parts = [tensors[f"model.layers.{layer}.{block}.experts.{expert}.{word}.weight"] for word in words]
    return torch.cat([part.to(dtype).flatten() for part in parts])


def write_file(
    file: Path, tensors: dict[str, torch.Tensor], *, order: Sequence[str] | None = None, padding: int = 0
) -> None:
    """Write a safetensors file with tensors in any order; the data begins ``padding`` bytes late."""
    header, position, names = {}, 0, list(order or sorted(tensors))
    kinds = {
        torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
        torch.int64: "I64", torch.bool: "BOOL", torch.float8_e4m3fn: "F8_E4M3",
    }  # fmt: skip
    for name in names:
        size = tensors[name].numel() * tensors[name].element_size()
        header[name] = {
            "dtype": kinds[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [position, position + size],
        }
        position += size
    data = b"".join(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes() for name in names)
    file.write_bytes(raw_file(header, data, padding=padding))


def raw_file(header: object, data: bytes, *, padding: int = 0) -> bytes:
    """The bytes of a file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8 + padding)
    return len(text).to_bytes(8, "little") + text + data


def write_shards(folder: Path, shards: Sequence[dict[str, torch.Tensor]]) -> None:
    """Write shards and their index."""
    weight_map = {}
    for number, tensors in enumerate(shards, start=1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_file(folder / name, tensors)
        weight_map |= dict.fromkeys(tensors, name)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def forget(file: Path) -> None:
    """Take a file out of the page cache."""
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)  # pages not yet written stay, whoever asks
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


class FaultyCalls(SystemCalls):
    """The system's calls with faults: set the attributes to choose them.

    Parameters
    ----------
    refuse_direct
        ``"open"`` or ``"read"``: where direct access fails; empty for nowhere.
    """

    def __init__(self, *, refuse_direct: str = "") -> None:
        self.refuse_direct = refuse_direct
        self.failing_reads = 0
        """So many of the next reads report an input/output error."""
        self.failing_opens = 0
        self.at_most: int | None = None
        """Most bytes of one read; 0 for a file that has ended."""
        self.failing_drops = False
        self.opened = 0
        self.reads = 0
        self.dropped_bytes = 0
        self.descriptors: set[int] = set()
        self._direct: set[int] = set()
        self._lock = threading.Lock()

    def open(self, file: Path, *, direct: bool) -> int:
        with self._lock:
            if direct and self.refuse_direct == "open":
                raise OSError(errno.EINVAL, "Invalid argument")
            if self.failing_opens:
                self.failing_opens -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            descriptor = super().open(file, direct=direct)
            self.opened += 1
            self.descriptors.add(descriptor)
            if direct:
                self._direct.add(descriptor)
            return descriptor

    def read(self, descriptor: int, buffers: Sequence[memoryview], offset_bytes: int) -> int:
        with self._lock:
            self.reads += 1
            assert descriptor in self.descriptors, "read from a closed file"
            if descriptor in self._direct and self.refuse_direct == "read":
                raise OSError(errno.EINVAL, "Invalid argument")
            if self.failing_reads:
                self.failing_reads -= 1
                raise OSError(errno.EIO, "Input/output error")
        if self.at_most is None:
            return super().read(descriptor, buffers, offset_bytes)
        left, short = self.at_most, []
        for buffer in buffers:
            short.append(buffer[:left])
            left -= len(short[-1])
        # Always whole blocks from the system, as direct reads ask for; the rest is what did not come.
        got = super().read(descriptor, buffers, offset_bytes)
        return min(got, sum(map(len, short)))

    def drop_cache(self, descriptor: int, offset_bytes: int, size_bytes: int) -> None:
        if self.failing_drops:
            raise OSError(errno.ENOSYS, "Function not implemented")
        self.dropped_bytes += size_bytes
        super().drop_cache(descriptor, offset_bytes, size_bytes)

    def close(self, descriptor: int) -> None:
        with self._lock:
            self.descriptors.remove(descriptor)
            self._direct.discard(descriptor)
            super().close(descriptor)
