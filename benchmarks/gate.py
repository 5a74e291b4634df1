"""How long a decision at a gate takes.

``python benchmarks/gate.py`` runs steps of synthetic routing (Zipf 0.8; forecasts are the truth blurred)
under the costs of a published model and writes ``benchmarks/results/gate.csv`` and ``gate.md``. Wall times
of this machine on one core, compiled code warm:

- decision: one compiled call from the forecasts of the next layers and the true counts to where every expert
  runs, the copies and the clock: expected tables, lead DP, split and slots included;
- gate: `CompiledStep.gate` as the plug-in calls it, from forecasts as objects to a wave as an object, without
  the predictor's own work;
- plain: `OnlineStep.gate`, the same decision by the uncompiled control.

Cells that ``gate.csv`` already has are kept; ``--fresh`` measures all again.
"""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from csv_lines import read_lines, write_lines

from prescope.formulation import CostModel, preset
from prescope.formulation.demand import IntArray
from prescope.formulation.forecast import Forecast
from prescope.runtime.control import CompiledStep, CostTables, OnlineStep
from prescope.runtime.control import compiled as compiled_control
from prescope.solver.online import ExpectedPolicy, GatePolicy, make_gate_policy

FIELDS = ("model", "experts", "batch", "policy", "ahead", "what", "gates", "median_us", "p99_us")
UNGUARDED = "expected, no guard"
CELLS = tuple(
    (model, batch, policy)
    for model in ("qwen3-30b-a3b", "gpt-oss-20b", "mixtral-8x7b", "deepseek-v3")
    for batch in (1, 8, 32, 128)
    for policy in ("expected", UNGUARDED, "dp", "presched")
)


def main() -> int:
    """Measure the missing cells and write both files."""
    options = parser().parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "gate.csv"
    lines = read_lines(path, fresh=options.fresh)
    known = {(line["model"], int(line["batch"]), line["policy"]) for line in lines}
    for cell in CELLS:
        if cell not in known and cell[0] in options.models:
            lines += measure(*cell, machine=options.machine, steps=options.steps)
            write_lines(path, lines, FIELDS)
            print(f"{cell}: {lines[-3]['median_us']} us", file=sys.stderr)
    (options.output / "gate.md").write_text(markdown(lines), encoding="utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--models", nargs="+", default=sorted({cell[0] for cell in CELLS}))
    options.add_argument("--machine", default="a100-pcie4")
    options.add_argument("--steps", type=int, default=20, help="steps per cell")
    options.add_argument("--fresh", action="store_true", help="measure cells again that are known")
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return options


def measure(model: str, batch: int, policy: str, *, machine: str, steps: int) -> list[dict[str, Any]]:
    """The three times of one cell."""
    chosen = preset(f"{model}@{machine}")
    random = np.random.default_rng(0)
    demands = [routing(chosen.shape, batch, random) for _ in range(min(steps, 4))]
    times: dict[str, list[int]] = {"decision": [], "gate": [], "plain": []}
    real = compiled_control.run_running_gate

    def timed(*arguments: Any) -> int:
        begin = perf_counter_ns()
        brought: int = real(*arguments)
        times["decision"].append(perf_counter_ns() - begin)
        return brought

    tables = CostTables(chosen.costs)
    for number in range(-1, steps):
        counts = demands[number % len(demands)]
        forecasts = blurred(counts, random)
        run(OnlineStep, chosen.costs, tables, counts, forecasts, policy, batch, times["plain"])
        run(CompiledStep, chosen.costs, tables, counts, forecasts, policy, batch, times["gate"])
        compiled_control.run_running_gate = timed
        try:
            run(CompiledStep, chosen.costs, tables, counts, forecasts, policy, batch, [])
        finally:
            compiled_control.run_running_gate = real
        if number < 0:
            # The first step compiles.
            for what in times.values():
                what.clear()
    common = {"model": model, "experts": chosen.shape.experts, "batch": batch, "policy": policy}
    return [
        {
            **common,
            "ahead": policy_of(policy).horizon(6),
            "what": what,
            "gates": len(taken),
            "median_us": round(float(np.median(taken)) / 1e3, 1),
            "p99_us": round(float(np.percentile(taken, 99)) / 1e3, 1),
        }
        for what, taken in times.items()
    ]


def policy_of(name: str) -> GatePolicy:
    """A policy by name, or policy ``expected`` that trusts its forecasts."""
    return ExpectedPolicy() if name == UNGUARDED else make_gate_policy(name)


def routing(shape: Any, batch: int, random: np.random.Generator) -> IntArray:
    """Tokens per layer and expert of one step."""
    popularity = 1.0 / np.arange(1, shape.experts + 1) ** 0.8
    # The top k of popularity times exponential noise is a draw without replacement.
    keys = random.exponential(size=(shape.moe_layers, batch, shape.experts)) / popularity
    chosen = np.argsort(keys, axis=2)[:, :, : shape.top_k]
    counts = np.zeros((shape.moe_layers, shape.experts), dtype=np.int64)
    for layer in range(shape.moe_layers):
        np.add.at(counts[layer], chosen[layer].ravel(), 1)
    return counts


def blurred(counts: IntArray, random: np.random.Generator) -> list[Forecast]:
    """Per layer, a forecast that knows a good part of it."""
    base = counts.mean(axis=1, keepdims=True)
    chance = np.clip(0.7 * (counts > 0) + 0.1 * base + random.normal(0, 0.05, counts.shape), 0.01, 0.99)
    tokens = chance * np.maximum(1, counts)
    return [Forecast(expected_tokens=tokens[row], probability=chance[row]) for row in range(len(counts))]


def run(
    kind: type[CompiledStep] | type[OnlineStep],
    costs: CostModel,
    tables: CostTables,
    counts: IntArray,
    forecasts: list[Forecast],
    policy: str,
    batch: int,
    taken: list[int],
) -> None:
    """One step of a quarter of residents, 8 slots and a lookahead of 6."""
    resident = np.zeros(counts.shape, dtype=np.bool_)
    resident[:, : max(1, counts.shape[1] // 4)] = True
    step = kind(
        costs=costs,
        tables=tables,
        resident=resident,
        slots=8,
        lookahead=6,
        policy=policy_of(policy),
        forecast=lambda layer, horizon: forecasts[layer + horizon],
        tokens=batch,
    )
    step.start()
    for layer, row in enumerate(counts):
        begin = perf_counter_ns()
        step.gate(layer, row)
        taken.append(perf_counter_ns() - begin)


def markdown(lines: list[dict[str, Any]]) -> str:
    """The table for people."""
    parts = [
        "# A decision at a gate\n",
        "Made by `python benchmarks/gate.py` (do not edit); the docstring says what is timed. Measured: wall "
        f"times on one core of {platform.machine()}, Python {platform.python_version()}, microseconds, "
        "median (99th percentile).\n",
        "| model | experts | batch | policy | layers ahead | decision | gate | plain |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    cells: dict[tuple[Any, ...], dict[str, str]] = {}
    for line in lines:
        key = tuple(line[name] for name in ("model", "experts", "batch", "policy", "ahead"))
        cells.setdefault(key, {})[line["what"]] = f"{line['median_us']} ({line['p99_us']})"
    for key, times in cells.items():
        parts.append(
            f"| {' | '.join(map(str, key))} | {times['decision']} | {times['gate']} | {times['plain']} |"
        )
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
