"""The stock model over memory-mapped experts, in a process of its own whose memory is limited.

Its dense weights are ordinary memory. The experts are one safetensors file in the stock modules' layout,
whose tensors are views of the mapped file: an expert's pages come in as the stock loop touches them, and the
kernel decides what stays. The limit covers the whole process: what it holds without page cache, plus the
budget, plus a stated allowance for what a step allocates.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.disk_cgroup import MemoryGroup
from benchmarks.disk_routing import Array

_MIB = 2**20


def allowance_bytes(budget_bytes: int) -> int:
    """What a step may allocate beyond the budget: an eighth of it, between 1 and 16 MiB."""
    return min(16 * _MIB, max(_MIB, budget_bytes // 8))


class MappedModel:
    """The process, and what it is asked.

    Parameters
    ----------
    folder
        Checkpoint folder, for the dense weights.
    fused
        File of `benchmarks.disk_fused`.
    """

    def __init__(self, folder: Path, fused: Path) -> None:
        evict(fused)
        self._group = MemoryGroup(f"prescope-benchmark-{os.getpid()}-{id(self)}")
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.disk_mapped", str(folder), str(fused)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Threads that spin while they wait would only slow it down where others compute too.
                env={"OMP_WAIT_POLICY": "passive", **os.environ},
                text=True,
            )
        except BaseException:
            self._group.remove()
            raise
        self._answer()
        self._group.add(self._child.pid)
        self._ask({"load": True})

    def run(
        self,
        groups: list[Array],
        *,
        warm: int,
        budget_bytes: int | None,
        threads: int,
        limit_s: float | None = None,
    ) -> dict[str, Any]:
        """Run steps under a limit; see `benchmarks.disk_steps.run_steps`."""
        self._group.limit(None)
        base = self._group.used_bytes()
        if budget_bytes is not None:
            self._group.limit(base + budget_bytes + allowance_bytes(budget_bytes))
        question = {
            "groups": [group.tolist() for group in groups],
            "warm": warm,
            "threads": threads,
            "limit_s": limit_s,
        }
        try:
            answer = self._ask(question)
            return {**answer, "base_bytes": base, "cache_bytes": self._group.cache_bytes()}
        finally:
            self._group.limit(None)

    def close(self) -> None:
        """End the process."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait(timeout=30)
        self._group.remove()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            code = self._child.poll()
            raise RuntimeError(f"expected an answer, got the end of the mapped model's process ({code})")
        answer: dict[str, Any] = json.loads(line)
        return answer


def evict(file: Path) -> None:
    """Take a file out of the page cache: what another process had read would not count for the limit.

    Raises
    ------
    RuntimeError
        When some of it stays.
    """
    from prescope.runtime.disk import cached_bytes

    with open(file, "rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    left = cached_bytes(file)
    if left:
        raise RuntimeError(f"expected {file} out of the page cache, got {left} bytes of it there")


class ReadMeter:
    """Bytes that this process has fetched from storage since the start, page faults included."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Count from here."""
        self._before = self._now()

    def read_bytes(self) -> int:
        """Bytes since then."""
        return self._now() - self._before

    @staticmethod
    def _now() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


def build(folder: Path, fused: Path) -> Any:
    """The stock model, its experts mapped."""
    from safetensors import safe_open
    from torch import nn

    from prescope.runtime.plugin import moe_layers
    from prescope.runtime.plugin.load import build_from_checkpoint

    model, _ = build_from_checkpoint(folder)
    with safe_open(fused, framework="pt") as file:
        for index, layer in enumerate(moe_layers(model)):
            for part in ("gate_up_proj", "down_proj"):
                weight = file.get_tensor(f"{index}.{part}")
                layer.experts.register_parameter(part, nn.Parameter(weight, requires_grad=False))
    model.set_experts_implementation("eager")
    return model


def main() -> None:
    """Answer questions, a line each, until there are no more."""
    import torch

    from benchmarks.disk_steps import run_steps

    folder, fused = Path(sys.argv[1]), Path(sys.argv[2])
    model: Any = None
    print("{}", flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        if model is None:
            model = build(folder, fused)
            print("{}", flush=True)
            continue
        groups = [np.array(group, dtype=np.int64) for group in question["groups"]]
        torch.set_num_threads(question["threads"])
        meter = ReadMeter()
        times, digest = run_steps(
            model, groups, warm=question["warm"], on_warm=meter.start, limit_s=question["limit_s"]
        )
        answer = {"times_ns": times, "digest": digest, "bytes": meter.read_bytes()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
