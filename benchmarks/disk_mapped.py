"""The stock model over memory-mapped experts, in a process of its own whose memory is limited.

Its dense weights are ordinary memory. The experts are one safetensors file in the stock modules' layout, whose
tensors are views of the mapped file: an expert's pages come in as the stock loop touches them, and the kernel
decides what stays. The limit covers the whole process: what it holds without page cache, plus the budget,
plus a stated allowance for what a step allocates.
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

ALLOWANCE_BYTES = 16 * 2**20


class MappedModel:
    """The process, and what it is asked.

    Parameters
    ----------
    folder
        Checkpoint folder, for the dense weights.
    fused
        File of `benchmarks.disk_fused`.
    threads
        Threads of its computations; the stock default is one per core.
    """

    def __init__(self, folder: Path, fused: Path, *, threads: int) -> None:
        self._group = MemoryGroup(f"prescope-benchmark-{os.getpid()}-{id(self)}")
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.disk_mapped", str(folder), str(fused), str(threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        except BaseException:
            self._group.remove()
            raise
        self._answer()
        self._group.add(self._child.pid)
        self._ask({"load": True})

    def run(self, groups: list[Array], *, warm: int, budget_bytes: int) -> dict[str, Any]:
        """Run steps under a limit; see `benchmarks.disk_steps.run_steps`."""
        self._group.limit(None)
        base = self._group.used_bytes()
        self._group.limit(base + budget_bytes + ALLOWANCE_BYTES)
        try:
            answer = self._ask({"groups": [group.tolist() for group in groups], "warm": warm})
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
            raise RuntimeError(f"expected an answer, got the end of the mapped model's process ({self._child.poll()})")
        answer: dict[str, Any] = json.loads(line)
        return answer


def read_bytes() -> int:
    """Bytes that this process had fetched from storage, page faults included."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    return 0


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

    folder, fused, threads = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    model: Any = None
    print("{}", flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        if model is None:
            model = build(folder, fused)
            print("{}", flush=True)
            continue
        began = [0]

        def on_warm() -> None:
            began[0] = read_bytes()

        groups = [np.array(group, dtype=np.int64) for group in question["groups"]]
        times, digest = run_steps(model, groups, warm=question["warm"], on_warm=on_warm)
        answer = {"times_ns": times, "digest": digest, "bytes": read_bytes() - began[0]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
