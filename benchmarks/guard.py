"""What bad predictors cost with and without the guard of policy ``expected``, and what it costs a good one.

``python benchmarks/guard.py`` takes the trace, costs and cells of ``uncertainty.py``, spoils the forecasts,
and writes ``benchmarks/results/guard.csv`` and ``guard.md``: the time against the intra-layer optimum without
prefetch, all steps of a run and those after its first 20. Simulated. Its test sequences have served no other
table, and its predictor is trained on others; ``--split validation`` (files ``guard_validation``) is what the
guard's numbers were chosen on. What the file already has is kept; ``--fresh`` starts over.

- good: as the predictor says it
- wrong: the experts that will be needed are ruled out, others are sure
- late: of every layer it says what was true of the layer five before
- shifted: the experts are off by five
- uniform: every expert of a layer gets the layer's mean
- over-, under-confident: probabilities to the power 1/3 and 3
- broken, then good: wrong until the middle of the run
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from csv_lines import read_lines, write_lines
from uncertainty import BASE, CELLS, HERE, SLOTS, TRACE, assumed_costs
from uncertainty_steps import Steps, draw_steps, fresh_split_of, predictor_of, read_shared_trace

from prescope.formulation import Demand, Instance
from prescope.formulation.demand import FloatArray
from prescope.instances import choose_residents, popularity
from prescope.runtime.control.rollout import roll_out, site_of
from prescope.solver.online.expected import GUARD, ExpectedPolicy
from prescope.solver.online.gate_arrays import PolicyCode

TURNING = "broken, then good"
KINDS = ("good", "wrong", "late", "shifted", "uniform", "over-confident", "under-confident", TURNING)
PLACE = ("expert_mb", "link_gb_s", "cpu_gb_s", "resident")
FIELDS = ("split", "kind", "seed", "batch", *PLACE, "policy", "all_ns", "after_ns")
FIRST = 20
BARE = PolicyCode(ahead=0, copies=0, expected=False, spread=0.0)
RASH = "never waits"
POLICIES = {
    BASE: BARE,
    RASH: ExpectedPolicy(waits=False).code,
    "no guard": ExpectedPolicy().code,
    "guard": ExpectedPolicy(guard=GUARD).code,
}


def main() -> int:
    """Run what is missing and write both files; 1 when the guard misses what it is for."""
    options = parser().parse_args()
    if not options.trace.exists():
        print(f"nothing to do: no trace {options.trace}", file=sys.stderr)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"guard{'' if options.split == 'test' else '_validation'}.csv"
    lines = read_lines(path, fresh=options.fresh)
    trace = read_shared_trace(options.trace)
    split = fresh_split_of(trace)
    model = predictor_of(trace, options.predictor, split)
    rows = [np.arange(trace.seq_offsets[one], trace.seq_offsets[one + 1]) for one in split.train]
    shares = popularity(trace, rows=np.concatenate(rows))
    sequences = split.test if options.split == "test" else split.validation
    for seed, batch in product(range(options.seeds), options.batches):
        if any((int(line["seed"]), int(line["batch"])) == (seed, batch) for line in lines):
            continue
        steps = draw_steps(trace, model, sequences, batch=batch, seed=seed, windows=1, window=options.window)
        start = {"split": options.split, "seed": seed, "batch": batch}
        lines += [start | line for line in judged(steps, seed, batch, shares, trace.layers)]
        write_lines(path, lines, FIELDS)
        print(f"seed {seed} batch {batch}: {len(lines)} lines", file=sys.stderr)
    rows_of, lost = table(lines), losses(lines)
    path.with_suffix(".md").write_text(markdown(rows_of, lost, lines, options.split), encoding="utf-8")
    late = max(later for (_, policy), (_, _, later) in rows_of.items() if policy == "guard")
    return int(late > 0.02 or max(share for share, _ in lost.values()) > 0.005)


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--trace", type=Path, default=TRACE)
    options.add_argument("--predictor", type=Path, default=HERE.parent / ".cache" / "guard_predictor")
    options.add_argument("--split", choices=("test", "validation"), default="test")
    options.add_argument("--batches", nargs="+", type=int, default=(1, 8, 32))
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--window", type=int, default=40, help="steps in a row")
    options.add_argument("--fresh", action="store_true", help="start over")
    options.add_argument("--output", type=Path, default=HERE / "results")
    return options


def judged(steps: Steps, seed: int, batch: int, shares: FloatArray, layers: int) -> list[dict[str, Any]]:
    """Times of every kind, cell and policy."""
    lines = []
    total = len(steps.counts)
    forecasts = {kind: spoiled(steps, kind, layers, seed) for kind in KINDS}
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
        place = dict(zip(PLACE, cell, strict=True))
        for policy, code in POLICIES.items():
            for kind, (chance, tokens) in forecasts.items():
                # Without prefetch, forecasts change nothing; without waiting, two kinds say enough.
                if (policy == BASE and kind != "good") or (
                    policy == RASH and kind not in ("good", "uniform")
                ):
                    continue
                ends = roll_out(
                    site,
                    slots=SLOTS,
                    counts=steps.counts,
                    probabilities=chance,
                    expected_tokens=tokens,
                    code=code,
                ).layer_end_ns
                after = int(ends[-1] - ends[FIRST * layers - 1])
                times = {"all_ns": int(ends[-1]), "after_ns": after}
                lines.append({"kind": kind, **place, "policy": policy, **times})
    return lines


def spoiled(steps: Steps, kind: str, layers: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Probabilities and expected tokens of a worse predictor."""
    chance, tokens = steps.probabilities, steps.expected_tokens
    mean = np.maximum(tokens / np.maximum(chance, 1e-12), 1.0)
    if kind == "wrong":
        sure = np.random.default_rng(seed).random(chance.shape) < 0.3
        chance = np.where(steps.counts > 0, 0.001, np.where(sure, 0.95, 0.01))
        return chance, chance
    if kind == TURNING:
        half = chance.shape[1] // 2
        wrong = spoiled(steps, "wrong", layers, seed)
        turned, turned_tokens = (
            np.concatenate([bad[:, :half], real[:, half:]], axis=1)
            for bad, real in zip(wrong, (chance, tokens), strict=True)
        )
        return turned, turned_tokens
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


def sums(lines: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Time of all steps and of those after the first, summed over seeds, by batch, cell, policy and kind."""
    found: dict[tuple[Any, ...], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for line in lines:
        place = tuple(float(line[name]) for name in PLACE)
        key = (int(line["batch"]), place, line["policy"], line["kind"])
        whole, after = found[key]
        found[key] = whole + int(line["all_ns"]), after + int(line["after_ns"])
    return found


def table(lines: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Per kind and policy: mean change of the cells, the worst, and the worst after the first steps."""
    found = sums(lines)
    cells = {key[:2] for key in found}
    result = {}
    for kind, policy in product(KINDS, [name for name in POLICIES if name != BASE]):
        if not all((*cell, policy, kind) in found for cell in cells):
            continue
        changes = [
            [
                of / bare - 1
                for of, bare in zip(found[*cell, policy, kind], found[*cell, BASE, "good"], strict=True)
            ]
            for cell in cells
        ]
        whole, after = zip(*changes, strict=True)
        result[kind, policy] = (float(np.mean(whole)), max(whole), max(after))
    return result


def losses(lines: list[dict[str, Any]]) -> dict[int, tuple[float, float]]:
    """Share of the time that a good predictor loses to the guard: each batch's sum, and its worst cell."""
    found = sums(lines)
    result = {}
    for batch in sorted({key[0] for key in found}):
        places = {key[1] for key in found if key[0] == batch}
        with_ns, without_ns = (
            [found[batch, place, policy, "good"][0] for place in places] for policy in ("guard", "no guard")
        )
        cells = [one / other - 1 for one, other in zip(with_ns, without_ns, strict=True)]
        result[batch] = (sum(with_ns) / sum(without_ns) - 1, max(cells))
    return result


def markdown(
    rows: dict[tuple[str, str], tuple[float, float, float]],
    lost: dict[int, tuple[float, float]],
    lines: list[dict[str, Any]],
    split: str,
) -> str:
    """The tables for people."""
    seeds = len({int(line["seed"]) for line in lines})
    parts = [
        "# The guard\n",
        f"Made by `python benchmarks/guard.py --split {split}` (do not edit); the docstring says what the "
        f"predictors are. {split.capitalize()} sequences, {seeds} seeds, batches "
        f"{', '.join(str(batch) for batch in lost)}, 24 cells of assumed costs. Time of policy `expected` "
        "against no prefetch, simulated, each cell the sum of its seeds: mean over cells and batches, worst "
        f"of them, and worst of the steps after the first {FIRST}. Negative is faster.\n",
        "| predictor | policy | mean | worst | worst after the first steps |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (kind, policy), values in rows.items():
        parts.append(f"| {kind} | {policy} | " + " | ".join(f"{value:+.2%}" for value in values) + " |")
    parts += [
        "\nWhat the guard costs the good predictor: time against policy `expected` without it (negative: it "
        "gains).\n",
        "| batch | all cells | worst cell |",
        "| --- | --- | --- |",
    ]
    parts += [f"| {batch} | {share:+.2%} | {worst:+.2%} |" for batch, (share, worst) in lost.items()]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
