"""What gate policies gain with real predictions, of what knowing everything beforehand would gain.

``python benchmarks/uncertainty.py`` replays gpt-oss-20b decode routing (``../shared/traces``; without it
there is nothing to do) past the project's routing-only predictor, trained on 48 of its 88 sequences,
calibrated on 12 and judged on the other 28, and runs every policy over the same steps under the same assumed
costs: batch 1, 4, 8, 32; links of 12, 24 and 50 GB/s; a host that reads 60 or 120 GB/s; experts of 13.2 and
50 MB; 25 and 50 % of them resident, the most popular ones of the training sequences; 8 slots. Steps follow
each other: what the link brings at the end of one is there in the next. Times are simulated by the compiled
rollout, which the tests hold to the exact evaluator; nothing is measured here.

The gain of a policy is the time it saves against the intra-layer optimum without prefetch; its share is the
sum of its gains over the sum of those of the clairvoyant plan, which knows all steps of the run beforehand
and has no limit to its lookahead. Writes ``benchmarks/results/uncertainty.csv`` (a line per seed, batch, cell
and policy) and ``uncertainty.md``. What the file already has is kept; ``--fresh`` starts over. The predictor
is trained into ``--predictor`` on the first run.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from csv_lines import read_lines, write_lines
from uncertainty_steps import Steps, draw_steps, predictor_of, read_shared_trace, split_of

from prescope.formulation import CostModel, Demand, Instance, LinearTime, Link, makespan_ns
from prescope.formulation.demand import PredictedDemand
from prescope.instances import choose_residents, popularity
from prescope.runtime.control.rollout import roll_out, site_of
from prescope.runtime.control.twin import rounded_counts
from prescope.solver import Limits, get_method
from prescope.solver.online.expected import GUARD, LAYERS_AHEAD, ExpectedPolicy
from prescope.solver.online.gate_arrays import PolicyCode

HERE = Path(__file__).parent
TRACE = HERE.parents[1] / "shared" / "traces" / "gptoss_20b.npz"
BATCHES = (1, 4, 8, 32)
CELLS = tuple(product((13.2, 50.0), (12, 24, 50), (60, 120), (0.25, 0.5)))
SLOTS = 8
FIELDS = ("split", "seed", "batch", "expert_mb", "link_gb_s", "cpu_gb_s", "resident", "policy", "time_ns")
BASE, CLAIRVOYANT = "intra-layer", "clairvoyant"


def _dp(ahead: int) -> PolicyCode:
    return PolicyCode(ahead=ahead, copies=0, expected=False, spread=0.0)


def _expected(ahead: int, **choices: Any) -> PolicyCode:
    return ExpectedPolicy(ahead=ahead, **choices).code


SOFT = {
    "presched": _dp(1),
    **{f"dp w={ahead}": _dp(ahead) for ahead in (2, 3, 4, 6)},
    **{f"expected w={ahead}": _expected(ahead) for ahead in (1, 2, 4, 6, 8, 12)},
    "expected w=12, no spread": _expected(12, spread=0.0),
    "expected w=12, never waits": _expected(12, waits=False),
    "expected by name: w=12 and the guard": _expected(LAYERS_AHEAD, guard=GUARD),
}
HARD = {"presched, hard": _dp(1), "dp w=2, hard": _dp(2), "dp w=4, hard": _dp(4), "dp w=6, hard": _dp(6)}


def main() -> int:
    """Run what is missing and write both files; 1 when a cell is worse than without prefetch."""
    options = parser().parse_args()
    if not options.trace.exists():
        print(f"nothing to do: no trace {options.trace}", file=sys.stderr)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"uncertainty{'' if options.split == 'test' else '_validation'}.csv"
    lines = read_lines(path, fresh=options.fresh)
    trace = read_shared_trace(options.trace)
    split = split_of(trace)
    model = predictor_of(trace, options.predictor)
    rows = np.concatenate(
        [np.arange(trace.seq_offsets[one], trace.seq_offsets[one + 1]) for one in split.train]
    )
    shares = popularity(trace, rows=rows)
    for seed, batch in product(range(options.seeds), options.batches):
        here = [line for line in lines if (int(line["seed"]), int(line["batch"])) == (seed, batch)]
        wanted = {BASE, CLAIRVOYANT, *SOFT, *HARD} - {line["policy"] for line in here}
        if not wanted:
            continue
        steps = draw_steps(
            trace,
            model,
            split.test if options.split == "test" else split.validation,
            batch=batch,
            seed=seed,
            windows=options.windows,
            window=options.window,
        )
        for cell, policy, time_ns in times(steps, batch, shares, trace.layers, wanted):
            place = dict(zip(FIELDS[3:7], cell, strict=True))
            start = {"split": options.split, "seed": seed, "batch": batch}
            lines.append({**start, **place, "policy": policy, "time_ns": time_ns})
        write_lines(path, lines, FIELDS)
        print(f"seed {seed} batch {batch}: {len(lines)} lines", file=sys.stderr)
    worst = worst_cells(lines)
    path.with_suffix(".md").write_text(markdown(lines, worst, options), encoding="utf-8")
    return int(any(share > 0.002 for policy, share in worst.items() if policy.startswith("expected")))


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--trace", type=Path, default=TRACE)
    options.add_argument("--predictor", type=Path, default=HERE.parent / ".cache" / "uncertainty_predictor")
    options.add_argument("--split", choices=("test", "validation"), default="test")
    options.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--windows", type=int, default=2, help="draws of a batch per seed")
    options.add_argument("--window", type=int, default=20, help="steps in a row per draw")
    options.add_argument("--fresh", action="store_true", help="start over")
    options.add_argument("--output", type=Path, default=HERE / "results")
    return options


def times(
    steps: Steps, batch: int, shares: Any, layers: int, wanted: set[str]
) -> Iterator[tuple[tuple[float, ...], str, int]]:
    """Time of all steps in every cell by every wanted policy."""
    total = len(steps.counts)
    hard = hardened(steps, batch)
    soft = steps.probabilities, steps.expected_tokens
    for cell in CELLS:
        size_mb, link, cpu, fraction = cell
        residents = choose_residents(shares, fraction=fraction)
        instance = Instance(
            name="steps",
            costs=assumed_costs(size_mb, link, cpu, total),
            demand=Demand(counts=steps.counts, batch_tokens=batch),
            residents=residents * (total // layers),
            slots=SLOTS,
            lookahead=total,
        )
        site = site_of(instance)
        if CLAIRVOYANT in wanted:
            plan = get_method("dp-fast").plan(instance, limits=Limits(), seed=0, hint=None).plan
            if plan is None:
                raise RuntimeError("expected a clairvoyant plan, got none")
            yield cell, CLAIRVOYANT, makespan_ns(instance, plan)
        for policies, (chance, tokens) in ((({BASE: _dp(0)} | SOFT), soft), (HARD, hard)):
            for policy, code in policies.items():
                if policy not in wanted:
                    continue
                rolled = roll_out(
                    site,
                    slots=SLOTS,
                    counts=steps.counts,
                    probabilities=chance,
                    expected_tokens=tokens,
                    code=code,
                )
                yield cell, policy, int(rolled.layer_end_ns[-1])


def hardened(steps: Steps, batch: int) -> tuple[Any, Any]:
    """The same forecasts as counts that are believed."""
    said = PredictedDemand(probabilities=steps.probabilities, expected_tokens=steps.expected_tokens)
    counts = np.zeros(said.probabilities.shape)
    for horizon, layer in np.ndindex(counts.shape[:2]):
        counts[horizon, layer] = rounded_counts(
            said.probabilities[horizon, layer], said.expected_tokens[horizon, layer], batch_tokens=batch
        )
    return (counts > 0).astype(np.float64), counts


def assumed_costs(size_mb: float, link: int, cpu: int, layers: int, params: int = 24_900_000) -> CostModel:
    """Costs of the presets' A100 machine with another link, host and expert size."""
    size = int(size_mb * 1e6)
    return CostModel(
        expert_bytes=(size,) * layers,
        link=Link(bytes_per_s=link * 10**9, latency_ns=10_000),
        gpu=(LinearTime(fixed_ns=10_000 + round(size / 1500), per_token_ns=2 * params / 250_000),),
        cpu=(LinearTime(fixed_ns=30_000 + round(size / cpu), per_token_ns=2 * params / 1_500),),
        dense=(LinearTime(fixed_ns=300_000, per_token_ns=300_000 / 256),),
        source="assumed",
    )


def by_cell(lines: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, int]]:
    """Times by policy of every seed, batch and cell."""
    cells: dict[tuple[Any, ...], dict[str, int]] = defaultdict(dict)
    for line in lines:
        key = (int(line["seed"]), int(line["batch"]), *(float(line[name]) for name in FIELDS[3:7]))
        cells[key][line["policy"]] = int(line["time_ns"])
    return cells


def worst_cells(lines: list[dict[str, Any]]) -> dict[str, float]:
    """Per policy, how much it is behind no prefetch in its worst cell, all seeds of the cell together."""
    sums: dict[tuple[Any, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key, by_policy in by_cell(lines).items():
        for policy, time_ns in by_policy.items():
            sums[key[1:]][policy] += time_ns
    policies = next(iter(sums.values()))
    return {policy: max(one[policy] / one[BASE] - 1 for one in sums.values()) for policy in policies}


def shares_of(lines: list[dict[str, Any]], policy: str, batch: int) -> list[float]:
    """Share of the clairvoyant gain, one for each seed."""
    gained: dict[int, float] = defaultdict(float)
    possible: dict[int, float] = defaultdict(float)
    for key, by_policy in by_cell(lines).items():
        if key[1] == batch:
            gained[key[0]] += by_policy[BASE] - by_policy[policy]
            possible[key[0]] += by_policy[BASE] - by_policy[CLAIRVOYANT]
    return [gained[seed] / possible[seed] for seed in gained]


def markdown(lines: list[dict[str, Any]], worst: dict[str, float], options: argparse.Namespace) -> str:
    """The tables for people."""
    batches = sorted({int(line["batch"]) for line in lines})
    seeds = len({int(line["seed"]) for line in lines})
    parts = [
        "# Planning under uncertainty\n",
        f"Made by `python benchmarks/uncertainty.py --split {options.split}` (do not edit). "
        "Share of the clairvoyant plan's gain over the intra-layer optimum without prefetch, "
        f"{options.split} sequences, sum over 24 cells of assumed costs, simulated; mean over "
        f"{seeds} seeds and, in brackets, their standard deviation. Last "
        "column: the cell, over all batches, that is worst against no prefetch (negative: faster).\n",
        "| policy | " + " | ".join(f"batch {batch}" for batch in batches) + " | worst cell |",
        "| --- |" + " --- |" * (len(batches) + 1),
    ]
    for policy in [*SOFT, *HARD]:
        cells = []
        for batch in batches:
            shares = shares_of(lines, policy, batch)
            spread = stdev(shares) if len(shares) > 1 else 0.0
            cells.append(f"{mean(shares):.3f} ({spread:.3f})")
        parts.append(f"| {policy} | " + " | ".join(cells) + f" | {worst[policy]:+.2%} |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
