"""What bad predictors cost with and without the guard of policy ``expected``, and what it costs a good one.

``python benchmarks/guard.py`` takes the steps, forecasts, costs and cells of ``uncertainty.py`` (same data,
same options), spoils the forecasts, and writes ``benchmarks/results/guard.csv`` and ``guard.md``: the time
against the intra-layer optimum without prefetch, all steps of a run and those after its first 20. Simulated.

- wrong: the experts that will be needed are ruled out, others are sure
- late: of every layer it says what was true of the layer five before
- shifted: the experts are off by five
- uniform: every expert of a layer gets the layer's mean
- over-, under-confident: probabilities to the power 1/3 and 3
"""

from __future__ import annotations

import argparse
import csv
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from uncertainty import BASE, CELLS, HERE, SLOTS, TRACE, assumed_costs
from uncertainty_steps import Steps, draw_steps, predictor_of, read_shared_trace, split_of

from prescope.formulation import Demand, Instance
from prescope.formulation.demand import FloatArray
from prescope.instances import choose_residents, popularity
from prescope.runtime.control.rollout import roll_out, site_of
from prescope.solver.online.expected import GUARD, LAYERS_AHEAD, SPREAD
from prescope.solver.online.kernel import PolicyCode

KINDS = ("good", "wrong", "late", "shifted", "uniform", "over-confident", "under-confident")
FIELDS = (
    "kind",
    "seed",
    "batch",
    "expert_mb",
    "link_gb_s",
    "cpu_gb_s",
    "resident",
    "policy",
    "all_ns",
    "after_ns",
)
FIRST = 20
BARE = PolicyCode(ahead=0, copies=0, expected=False, spread=0.0)
OPEN = PolicyCode(ahead=LAYERS_AHEAD, copies=0, expected=True, spread=SPREAD)
GUARDED = OPEN._replace(guard=GUARD)


def main() -> int:
    """Run what is missing and write both files; 1 when a guarded cell costs more than 2 % after 20 steps."""
    options = parser().parse_args()
    if not options.trace.exists():
        print(f"nothing to do: no trace {options.trace}", file=sys.stderr)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "guard.csv"
    lines: list[dict[str, Any]] = []
    if path.exists() and not options.fresh:
        with open(path, encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
    trace = read_shared_trace(options.trace)
    split = split_of(trace)
    model = predictor_of(trace, options.predictor)
    rows = [np.arange(trace.seq_offsets[one], trace.seq_offsets[one + 1]) for one in split.train]
    shares = popularity(trace, rows=np.concatenate(rows))
    for seed, batch in product(range(options.seeds), options.batches):
        if any((int(line["seed"]), int(line["batch"])) == (seed, batch) for line in lines):
            continue
        steps = draw_steps(trace, model, split.test, batch=batch, seed=seed, windows=1, window=options.window)
        lines += judged(steps, seed, batch, shares, trace.layers)
        part = path.with_suffix(".part")
        with open(part, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
        part.replace(path)
        print(f"seed {seed} batch {batch}: {len(lines)} lines", file=sys.stderr)
    worst = summary(lines)
    (options.output / "guard.md").write_text(markdown(worst), encoding="utf-8")
    return int(any(after > 0.02 for (_, policy), (_, _, after) in worst.items() if policy == "guarded"))


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--trace", type=Path, default=TRACE)
    options.add_argument("--predictor", type=Path, default=HERE.parent / ".cache" / "uncertainty_predictor")
    options.add_argument("--batches", nargs="+", type=int, default=(1, 8, 32))
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--window", type=int, default=60, help="steps in a row")
    options.add_argument("--fresh", action="store_true", help="start over")
    options.add_argument("--output", type=Path, default=HERE / "results")
    return options


def judged(steps: Steps, seed: int, batch: int, shares: FloatArray, layers: int) -> list[dict[str, Any]]:
    """Times of every kind, cell and policy."""
    lines = []
    total = len(steps.counts)
    for cell in CELLS:
        size_mb, link, cpu, fraction = cell
        instance = Instance(
            name="steps",
            costs=assumed_costs(size_mb, link, cpu, total),
            demand=Demand(counts=steps.counts, batch_tokens=batch),
            residents=choose_residents(shares, fraction=fraction) * (total // layers),
            slots=SLOTS,
            lookahead=total,
        )
        site = site_of(instance)
        for kind in KINDS:
            chance, tokens = spoiled(steps, kind, layers, seed)
            for policy, code in ((BASE, BARE), ("open", OPEN), ("guarded", GUARDED)):
                ends = roll_out(
                    site,
                    slots=SLOTS,
                    counts=steps.counts,
                    probabilities=chance,
                    expected_tokens=tokens,
                    code=code,
                ).layer_end_ns
                place = dict(zip(FIELDS[3:7], cell, strict=True))
                after = int(ends[-1] - ends[FIRST * layers - 1])
                times = {"all_ns": int(ends[-1]), "after_ns": after}
                lines.append({"kind": kind, "seed": seed, "batch": batch, **place, "policy": policy, **times})
    return lines


def spoiled(steps: Steps, kind: str, layers: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Probabilities and expected tokens of a worse predictor."""
    chance, tokens = steps.probabilities, steps.expected_tokens
    mean = np.maximum(tokens / np.maximum(chance, 1e-12), 1.0)
    if kind == "wrong":
        sure = np.random.default_rng(seed).random(chance.shape) < 0.3
        chance = np.where(steps.counts > 0, 0.001, np.where(sure, 0.95, 0.01))
        return chance, chance
    if kind == "late":
        before = np.roll(steps.counts, 5, axis=0)
        stale = np.broadcast_to((before > 0) * 0.95, chance.shape).copy()
        return stale, stale * np.maximum(before, 1)
    if kind == "shifted":
        return np.roll(chance, 5, axis=-1), np.roll(tokens, 5, axis=-1)
    if kind == "uniform":
        flat = np.ones(chance.shape)
        return flat * chance.mean(-1, keepdims=True), flat * tokens.mean(-1, keepdims=True)
    power = {"good": 1.0, "over-confident": 1 / 3, "under-confident": 3.0}[kind]
    return chance**power, chance**power * mean


def summary(lines: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Per kind and policy: mean change over all, worst cell, and worst cell after the first steps."""
    sums: dict[tuple[Any, ...], dict[str, list[int]]] = {}
    for line in lines:
        key = (line["kind"], int(line["batch"]), *(float(line[name]) for name in FIELDS[3:7]))
        whole, after = sums.setdefault(key, {}).setdefault(line["policy"], [0, 0])
        sums[key][line["policy"]] = [whole + int(line["all_ns"]), after + int(line["after_ns"])]
    result = {}
    for kind, policy in product(KINDS, ("open", "guarded")):
        cells = [one for key, one in sums.items() if key[0] == kind]
        changes = [cell[policy][0] / cell[BASE][0] - 1 for cell in cells]
        later = max(cell[policy][1] / cell[BASE][1] - 1 for cell in cells)
        result[kind, policy] = (float(np.mean(changes)), max(changes), later)
    return result


def markdown(worst: dict[tuple[str, str], tuple[float, float, float]]) -> str:
    """The table for people."""
    parts = [
        "# The guard\n",
        "Made by `python benchmarks/guard.py` (do not edit); the docstring says what the predictors are. "
        "Time of policy `expected` against no prefetch, simulated: mean over cells and batches, worst cell, "
        f"and worst cell after the first {FIRST} steps. Negative is faster.\n",
        "| predictor | policy | mean | worst | worst after the first steps |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (kind, policy), values in worst.items():
        parts.append(f"| {kind} | {policy} | " + " | ".join(f"{value:+.2%}" for value in values) + " |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
