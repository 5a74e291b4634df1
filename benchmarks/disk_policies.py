"""Policies on the disk tier, executed: what each takes on the same tokens, and how well it was planned.

    python -m benchmarks.disk_policies            # about six minutes and 3 GB of disk
    python -m benchmarks.disk_policies --quick    # a small model, for trying out

A cut Qwen3-MoE of random weights with sharpened routers, as in ``disk_tier.py`` but of fewer layers, and the
tiny model read real tokens through the real engine on real files. Costs are measured first. In each cell
(memory, batch) the systems take turns, ``--rounds`` times; a system's figure is the median of its rounds.
Deviation is that of a step's measured time from its planned one, median over steps.

Lines grow in ``benchmarks/results/disk_policies.csv``; a run that was stopped goes on. ``disk_policies.md``
has the tables.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from datetime import date
from itertools import product
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

import numpy as np

from benchmarks.csv_lines import read_lines, write_lines
from benchmarks.disk_cells import CellResult, System, engine_cell
from benchmarks.disk_prepare import VALIDATION, costs_of, groups_of, prepare_cut, streams

RULE = "moving-average"
SYSTEMS = (
    System(name="on demand", policy="on-demand", residency=RULE),
    System(name="presched", policy="presched", residency=RULE),
    System(name="dp", policy="dp", residency=RULE),
    System(name="expected", policy="expected", residency=RULE),
    System(name="expected, mixed-average", policy="expected", residency="mixed-average"),
)
FIRST = SYSTEMS[0].name
# Steps, and those of them that fill the memory and are not counted; by model and batch.
STEPS = {"cut": {1: (36, 10), 8: (14, 4)}, "tiny": {1: (100, 40), 8: (60, 20)}}
MEMORIES = (10, 25, 50)
BATCHES = (1, 8)
FIELDS = (
    "model", "memory", "batch", "system", "round", "split", "step_ms", "planned_ms", "deviation",
    "deciding_ms", "mb_per_token", "hit_percent", "useful", "wasted", "late", "digest", "warnings",
)  # fmt: skip


def main() -> int:
    """Prepare, measure, write."""
    options = parser().parse_args()
    began = monotonic()

    def say(text: str) -> None:
        print(f"[{monotonic() - began:6.1f} s] {text}", file=sys.stderr, flush=True)

    work = options.work or Path(tempfile.gettempdir()) / "prescope-disk-policies"
    work.mkdir(parents=True, exist_ok=True)
    options.output.mkdir(parents=True, exist_ok=True)
    name = "disk_policies" + ("_quick" if options.quick else "")
    if options.split == "validation":
        name += "_validation"
    path = options.output / f"{name}.csv"
    lines = read_lines(path, fresh=options.fresh)
    notes: list[str] = []
    try:
        for model in options.models:
            if model == "cut":
                size = {"layers": 6, "expert_size": 128} if options.quick else {"layers": 8}
                folder, _, _ = prepare_cut(work, say, notes, name="cut", **size)
            else:
                from prescope.tiny import tiny_model_path

                folder = tiny_model_path()
            measure(model, folder, options, lines, path, say, notes, work)
    finally:
        if lines:
            path.with_suffix(".md").write_text(markdown(lines, notes), encoding="utf-8")
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a small model and rough costs")
    options.add_argument("--models", nargs="+", choices=("cut", "tiny"), default=("cut", "tiny"))
    options.add_argument("--memories", nargs="+", type=int, default=MEMORIES, help="percent")
    options.add_argument("--batches", nargs="+", type=int, choices=BATCHES, default=BATCHES)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--split", choices=("test", "validation"), default="test", help="token streams")
    options.add_argument(
        "--work", type=Path, help="folder for the model; default: below the temporary folder"
    )
    options.add_argument("--keep", action="store_true", help="keep the model and its costs")
    options.add_argument("--fresh", action="store_true", help="start over")
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return options


def measure(
    model: str,
    folder: Path,
    options: argparse.Namespace,
    lines: list[dict[str, Any]],
    path: Path,
    say: Any,
    notes: list[str],
    work: Path,
) -> None:
    """All cells of one model."""
    import torch

    from prescope.runtime.plugin.load import load

    costs = costs_of(folder, work / f"{model}-costs.json", say, quick=options.quick)
    torch.set_num_threads(costs.provenance.threads or 1)
    loaded = load(folder, "1GiB", costs=costs)
    loaded.engine.detach()
    store = loaded.store
    notes.append(
        f"{model}: {date.today().isoformat()}, {len(os.sched_getaffinity(0))} cores, load "
        f"{os.getloadavg()[0]:.1f} after measuring costs; {store.size_bytes / 1e9:.2f} GB of experts, "
        f"{store.row_bytes(0) / 1e6:.2f} MB each; read {costs.costs.copy_ns(0) / 1e6:.2f} ms, expert of one "
        f"token {costs.costs.gpu_ns(0, 1) / 1e6:.2f} ms, dense {costs.costs.dense_ns(1, 1) / 1e6:.2f} ms a "
        f"layer; {costs.provenance.notes or 'quiet'}"
    )
    rows = streams()[VALIDATION:] if options.split == "test" else streams()[VALIDATION // 2 : VALIDATION]
    unknown = np.zeros((store.layers, store.experts))
    try:
        for batch, memory, turn, system in product(
            options.batches, options.memories, range(options.rounds), SYSTEMS
        ):
            key = {"model": model, "memory": memory, "batch": batch, "system": system.name, "round": turn}
            if any(all(str(line[name]) == str(value) for name, value in key.items()) for line in lines):
                continue
            steps, warm = STEPS[model][batch]
            result = engine_cell(
                loaded.model,
                system,
                groups_of(rows, batch, steps),
                warm=warm,
                budget_bytes=store.size_bytes * memory // 100,
                costs=costs,
                popularity=unknown,
            )
            lines.append({**key, "split": options.split, **figures_of(result, batch)})
            write_lines(path, lines, FIELDS)
            say(f"{model} {memory} % batch {batch} {system.name}: {lines[-1]['step_ms']} ms/step")
    finally:
        loaded.close()


def figures_of(result: CellResult, batch: int) -> dict[str, Any]:
    """A line of the table without its key."""
    ratio = np.array(result.executed_ns) / np.array(result.planned_ns)
    useful, wasted, late = result.prefetch
    return {
        "step_ms": round(float(np.mean(result.times_ns)) / 1e6, 3),
        "planned_ms": round(float(np.mean(result.planned_ns)) / 1e6, 3),
        "deviation": round(100 * float(np.median(np.abs(ratio - 1))), 1),
        "deciding_ms": round(result.plan_ns / 1e6, 3),
        "mb_per_token": round(result.read_bytes / (batch * len(result.times_ns)) / 1e6, 3),
        "hit_percent": round(100 * (result.hit_rate or 0.0), 1),
        "useful": useful,
        "wasted": wasted,
        "late": late,
        "digest": result.digest,
        "warnings": "; ".join(result.warnings),
    }


def markdown(lines: list[dict[str, Any]], notes: list[str]) -> str:
    """The tables for people."""
    parts = [
        "# Policies on the disk tier, measured\n",
        "Made by `python -m benchmarks.disk_policies` (do not edit); its docstring says what is run. "
        "Milliseconds per step, mean over counted steps. *Over on demand*: time saved by the policy; the "
        "same rule for what stays where not said otherwise.\n",
        *(f"- {note}" for note in notes),
    ]
    for model, memory, batch in dict.fromkeys(
        (line["model"], int(line["memory"]), int(line["batch"])) for line in lines
    ):
        here = [
            line
            for line in lines
            if (line["model"], int(line["memory"]), int(line["batch"])) == (model, memory, batch)
        ]
        same = len({line["digest"] for line in here}) == 1
        parts += [
            f"\n## {model}, {memory} % of the experts' bytes, batch {batch}\n",
            "All logits are the same bit for bit.\n" if same else "Logits DIFFER between systems.\n",
            "| system | ms/step | over on demand | planned | deviation % | deciding | MB/token | hit % | "
            "read ahead: useful/wasted/late |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        times = {
            name: median(float(line["step_ms"]) for line in here if line["system"] == name)
            for name in dict.fromkeys(line["system"] for line in here)
        }
        for name, step_ms in times.items():
            own = [line for line in here if line["system"] == name]
            middle = {
                field: median(float(line[field]) for line in own)
                for field in ("planned_ms", "deviation", "deciding_ms", "mb_per_token", "hit_percent")
            }
            saved = f"{1 - step_ms / times[FIRST]:+.1%}" if FIRST in times else ""
            ahead = "/".join(str(own[0][field]) for field in ("useful", "wasted", "late"))
            parts.append(
                f"| {name} | {step_ms:.2f} | {saved} | {middle['planned_ms']:.2f} | "
                f"{middle['deviation']:.1f} | {middle['deciding_ms']:.2f} | {middle['mb_per_token']:.2f} | "
                f"{middle['hit_percent']:.1f} | {ahead} |"
            )
    deviations = sorted(float(line["deviation"]) for line in lines if line["model"] == "cut")
    if deviations:
        parts.append(
            f"\nCut model: the median over cells of the deviation from the plan is "
            f"{median(deviations):.1f} %, the largest {deviations[-1]:.1f} %."
        )
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
