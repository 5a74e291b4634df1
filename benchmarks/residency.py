"""Who should stay on the device: rules against the best that is known when all demand is.

``python benchmarks/residency.py`` replays decode routing of gpt-oss-20b (``../shared/traces``; without it
there is nothing to do) as horizons of steps in a row, on the 28 test sequences: batch 1, 4, 8, 16 and 32; 10,
25, 50 and 75 % of the experts resident, at first the most popular of the training sequences; 8 slots; experts
of 13.2 MB, link 24 GB/s, a host that reads 120 GB/s (assumed costs). Steps are planned by the intra-layer
optimum without prefetch, and gate by gate by policy ``expected`` with the routing-only predictor's forecasts.
Every rule may also bring experts while the link is idle. ``auto`` is the learned rule or the moving average,
as validation sequences said (`prescope.solver.residency.prefers_average`); ``ktransformers`` keeps a static
mask and leaves what is missing to the host. All times are simulated: the exact evaluator's. Flow times are
wall time of this machine (``benchmarks/residency_flows.py`` takes them apart).

The gain of a rule is the time it saves against residents that never move; its share is of the gain of the
best executed plan among Belady's and the flows', all of which know all demand. Writes
``benchmarks/results/residency.csv`` and ``.md``; what the file already has is kept, ``--fresh`` starts over.
A predictor is trained into ``--predictor`` where there is none (minutes).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from csv_lines import read_lines, write_lines
from uncertainty import assumed_costs
from uncertainty_steps import Steps, draw_steps, predictor_of, read_shared_trace, split_of

from prescope.formulation import Demand, Instance, Plan
from prescope.formulation.demand import FloatArray, IntArray, PredictedDemand
from prescope.formulation.horizon import Horizon
from prescope.formulation.horizon_evaluator import HorizonSchedule, evaluate_horizon
from prescope.instances import RoutingTrace, choose_residents, popularity
from prescope.runtime.control.rollout import rollout
from prescope.solver import Limits, get_method
from prescope.solver.online import ExpectedPolicy
from prescope.solver.residency import (
    Learned,
    LeastFrequentlyUsed,
    LeastRecentlyUsed,
    MovingAverage,
    OutlookSums,
    ResidencyRule,
    Static,
    StepPlanner,
    fit_outlook,
    horizon_bound,
    offline_trials,
    prefers_average,
    run_horizon,
)

HERE = Path(__file__).parent
TRACE = HERE.parents[1] / "shared" / "traces" / "gptoss_20b.npz"
STEPS = {1: 48, 4: 32, 8: 24, 16: 16, 32: 16}
CAPACITIES = (0.1, 0.25, 0.5, 0.75)
PLANNERS = ("intra-layer", "expected")
SLOTS, SIZE_MB, LINK, CPU = 8, 13.2, 24, 120
MASK = "ktransformers"
ONLINE = ("lru", "lfu", "moving-average", "learned", "auto")
SMALLEST_GAIN = 0.002
FIELDS = (
    "split", "seed", "batch", "capacity", "planner", "rule", "steps", "time_ns", "hits", "uses", "flow_ms"
)  # fmt: skip


def main() -> int:
    """Run what is missing and write both files."""
    options = parser().parse_args()
    if not options.trace.exists():
        print(f"nothing to do: no trace {options.trace}", file=sys.stderr)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"residency{'' if options.split == 'test' else '_validation'}.csv"
    lines = read_lines(path, fresh=options.fresh)
    wanted = [
        key
        for key in product(range(options.seeds), options.batches, CAPACITIES)
        if not any((int(line["seed"]), int(line["batch"]), float(line["capacity"])) == key for line in lines)
    ]
    if wanted:
        lines = run(options, wanted, lines, path)
    path.with_suffix(".md").write_text(markdown(lines, options.split), encoding="utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--trace", type=Path, default=TRACE)
    options.add_argument("--predictor", type=Path, default=HERE.parent / ".cache" / "uncertainty_predictor")
    options.add_argument("--split", choices=("test", "validation"), default="test")
    options.add_argument("--batches", nargs="+", type=int, default=tuple(STEPS))
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--fresh", action="store_true", help="start over")
    options.add_argument("--output", type=Path, default=HERE / "results")
    return options


def run(options: argparse.Namespace, wanted: list[Any], lines: list[Any], path: Path) -> list[Any]:
    """Simulate cells, writing the file after each."""
    trace = read_shared_trace(options.trace)
    split = split_of(trace)
    model = predictor_of(trace, options.predictor)
    shares = popularity(trace, rows=np.concatenate([rows_of(trace, one) for one in split.train]))
    start = 4 * shares / shares.sum(axis=1, keepdims=True)
    outlook = fit_outlook((decoded(trace, one) for one in split.train), start)
    drawn: dict[tuple[int, int], Steps] = {}
    for seed, batch, capacity in wanted:
        if (seed, batch) not in drawn:
            sequences = split.test if options.split == "test" else split.validation
            drawn = {
                (seed, batch): draw_steps(
                    trace, model, sequences, batch=batch, seed=seed, windows=1, window=STEPS[batch]
                )
            }
        steps = drawn[seed, batch]
        horizon = horizon_of(steps, batch, trace.layers, choose_residents(shares, fraction=capacity))
        where = {"split": options.split, "seed": seed, "batch": batch, "capacity": capacity}
        for line in cell(horizon, steps, start, outlook):
            lines.append({**where, "steps": horizon.steps, **line})
        write_lines(path, lines, FIELDS)
        print(f"seed {seed} batch {batch} capacity {capacity}: {len(lines)} lines", file=sys.stderr)
    return lines


def rows_of(trace: RoutingTrace, sequence: int) -> IntArray:
    """The rows of a sequence."""
    return np.arange(trace.seq_offsets[sequence], trace.seq_offsets[sequence + 1])


def decoded(trace: RoutingTrace, sequence: int) -> IntArray:
    """What each token of a sequence chose, int64 ``[tokens, layers, experts]``."""
    ids = trace.topk_ids[rows_of(trace, sequence)].astype(np.int64)
    counts = np.zeros((*ids.shape[:2], trace.meta.experts), dtype=np.int64)
    np.put_along_axis(counts, ids, 1, axis=2)
    return counts


def horizon_of(steps: Steps, batch: int, layers: int, residents: Any) -> Horizon:
    """Steps as a horizon under the assumed costs."""
    counts = steps.counts.reshape(-1, layers, steps.counts.shape[1])
    return Horizon(
        name=f"gpt-oss-20b-b{batch}",
        costs=assumed_costs(SIZE_MB, LINK, CPU, layers),
        demands=tuple(Demand(counts=step, batch_tokens=batch) for step in counts),
        residents=residents,
        slots=SLOTS,
        lookahead=layers,
    )


def planner_of(name: str, horizon: Horizon, steps: Steps) -> StepPlanner:
    """Plans a step without prefetch, or gate by gate from forecasts."""
    if name in ("intra-layer", MASK):
        method = get_method(name)

        def plan(instance: Instance) -> Plan:
            found = method.plan(instance, limits=Limits(), seed=0, hint=None).plan
            if found is None:
                raise RuntimeError("expected a plan, got none")
            return found

        return plan
    code = ExpectedPolicy().code
    number = {id(demand): step for step, demand in enumerate(horizon.demands)}

    def follow(instance: Instance) -> Plan:
        first = number[id(instance.demand)] * horizon.layers
        here = slice(first, first + horizon.layers)
        said = PredictedDemand(
            probabilities=steps.probabilities[:, here], expected_tokens=steps.expected_tokens[:, here]
        )
        return rollout(replace(instance, predicted=said), code).plan()

    return follow


def online_rules(
    horizon: Horizon, start: FloatArray, outlook: OutlookSums
) -> dict[str, Callable[[], ResidencyRule]]:
    """The rules that know only the past; averages' weights were chosen on validation sequences."""
    shape = horizon.layers, horizon.experts
    curve = horizon.costs.cpu[0]
    costs = {"fixed_ns": float(2 * curve(1) - curve(2)), "per_token_ns": float(curve(2) - curve(1))}
    decay = 0.03 if horizon.demands[0].batch_tokens == 1 else 0.1
    return {
        "lru": lambda: LeastRecentlyUsed(*shape),
        "lfu": lambda: LeastFrequentlyUsed(*shape),
        "moving-average": lambda: MovingAverage(start / start.sum(axis=1)[:, None], decay=decay, **costs),
        "learned": lambda: Learned(start, outlook, **costs),
    }


def cell(horizon: Horizon, steps: Steps, start: FloatArray, outlook: OutlookSums) -> Iterator[dict[str, Any]]:
    """One line per planner and rule, and the bound that holds for all."""
    bound_ns, _, _ = horizon_bound(horizon, rounds=5)
    yield {"planner": "any", "rule": "bound", "time_ns": bound_ns, "hits": "", "uses": "", "flow_ms": ""}
    mask = run_horizon(horizon, Static(), planner_of(MASK, horizon, steps))
    masked = evaluate_horizon(horizon, mask)
    share = sum(map(len, horizon.residents)) / (horizon.layers * horizon.experts)
    picked = "moving-average" if prefers_average(horizon.demands[0].batch_tokens, share) else "learned"
    for planner in PLANNERS:
        plan_step = planner_of(planner, horizon, steps)
        yield line(planner, MASK, masked)
        for trial in offline_trials(horizon, plan_step):
            yield line(planner, trial.label, trial.schedule, trial.rule_ns)
        for name, make in online_rules(horizon, start, outlook).items():
            schedule = evaluate_horizon(horizon, run_horizon(horizon, make(), plan_step))
            yield line(planner, name, schedule)
            if name == picked:
                yield line(planner, "auto", schedule)


def line(planner: str, rule: str, schedule: HorizonSchedule, rule_ns: int = 0) -> dict[str, Any]:
    """What is written of one run."""
    return {
        "planner": planner,
        "rule": rule,
        "time_ns": schedule.total_ns,
        "hits": schedule.hits,
        "uses": schedule.uses,
        "flow_ms": round(rule_ns / 1e6, 1) if rule_ns else "",
    }


def best_of(rules: dict[str, list[dict[str, Any]]], seed: str) -> dict[str, Any]:
    """The offline line with the shortest time of one seed."""
    offline = [
        one for name, some in rules.items() if name == "belady" or name.startswith("flow ") for one in some
    ]
    return min((one for one in offline if one["seed"] == seed), key=lambda one: int(one["time_ns"]))


def markdown(lines: list[dict[str, Any]], split: str) -> str:
    """The tables for people."""
    groups: dict[tuple[str, int, float], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    bounds: dict[tuple[int, float], int] = defaultdict(int)
    for one in lines:
        one = {name: str(value) for name, value in one.items()}
        where = int(one["batch"]), float(one["capacity"])
        if one["rule"] == "bound":
            bounds[where] += int(one["time_ns"])
        else:
            groups[one["planner"], *where][one["rule"]].append(one)
    seeds = sorted({str(one["seed"]) for one in lines})
    parts = [
        "# Residents\n",
        f"Made by `python benchmarks/residency.py --split {split} --seeds {len(seeds)}` (do not edit): "
        f"{split} sequences, {len(seeds)} seed{'s' * (len(seeds) > 1)}, simulated. Time per step with "
        "residents that never move; what the best executed plan that knows all demand gains on it (Belady's "
        "or a flow's); and the share "
        "of this gain that each rule reaches, sum over sum, with its standard deviation over the seeds "
        "(negative: slower than leaving all as it is; `-` where less than 0.2 % can be gained). "
        "`ktransformers`: a static mask, what is missing runs on the host. `auto`: the learned rule, from "
        "batch 16 with half of the experts resident the moving average. Hit rate: uses whose expert was "
        "resident when the step began. Bound: how far the best executed plan is above the lower bound of all "
        "plans, with all demand "
        "known and prefetching ones included.\n",
    ]
    for planner in PLANNERS:
        parts += [
            f"## Steps planned by `{planner}`\n",
            "| batch | resident | static, ms/step | offline gain | belady | "
            + " | ".join((*ONLINE, MASK))
            + " | hit rate static / auto / offline | above bound |",
            "| ---: | ---: | ---: | ---: |" + " ---: |" * (len(ONLINE) + 4),
        ]
        for (owner, batch, capacity), rules in sorted(groups.items()):
            if owner == planner:
                parts.append(row(batch, capacity, rules, bounds[batch, capacity]))
        parts.append("")
    return "\n".join(parts)


def row(batch: int, capacity: float, rules: dict[str, list[Any]], bound_ns: int) -> str:
    """One line of the table."""
    best = [best_of(rules, one["seed"]) for one in rules["static"]]

    def total(some: list[Any], field: str = "time_ns") -> int:
        return sum(int(one[field]) for one in some)

    static_ns, best_ns = total(rules["static"]), total(best)
    gain_ns = static_ns - best_ns
    shares = [share_of(rules["static"], best, rules[name]) for name in ("belady", *ONLINE, MASK)]
    hits = " / ".join(
        f"{total(some, 'hits') / total(some, 'uses'):.3f}" for some in (rules["static"], rules["auto"], best)
    )
    steps = total(rules["static"], "steps")
    return (
        f"| {batch} | {capacity:.0%} | {static_ns / steps / 1e6:.2f} | {gain_ns / static_ns:.1%} | "
        + " | ".join(shares)
        + f" | {hits} | {best_ns / bound_ns - 1:.1%} |"
    )


def share_of(static: list[Any], best: list[Any], rule: list[Any]) -> str:
    """Share of the offline gain that a rule reaches: sum over sum, and its spread over the seeds."""
    numbers = np.array([[int(one["time_ns"]) for one in some] for some in (static, best, rule)], dtype=float)
    (static_ns, best_ns, rule_ns), gains = numbers.sum(axis=1), numbers[0] - numbers[1]
    if static_ns - best_ns < SMALLEST_GAIN * static_ns:
        return "-"
    share = f"{(static_ns - rule_ns) / (static_ns - best_ns):.2f}"
    if len(static) < 2 or gains.min() <= 0:
        return share
    return f"{share} ({((numbers[0] - numbers[2]) / gains).std(ddof=1):.2f})"


if __name__ == "__main__":
    sys.exit(main())
