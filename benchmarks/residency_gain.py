"""What prefetch by expected cost and moving residents gain together, over residents that never move.

``python benchmarks/residency_gain.py`` replays decode routing of gpt-oss-20b (``../shared/traces``; without
it there is nothing to do) on the 28 test sequences: steps in a row, 25 % of the experts resident at first, 8
slots, in the seven cells of assumed costs of ``CELLS``. Everything is decided gate by gate: policy
``expected`` with the routing-only predictor's forecasts, which go on into the next step; after a layer, an
expert that was brought takes the place of a resident of this layer that is worth less. A resident that the
layer needed too gives up its place when it has done its work. Residency rules have seen the steps before the
first, as the predictor has; the residents of the first step are the most popular of the training sequences.
*Step by step*: forecasts and copies that do not go on into the next step, as in the plug-in.
A seed of batch 1 is four runs over steps drawn on their own and one of batch 4 two, so that it rests on as
many sequences. Times are simulated: the control's clock, which is compared with the exact evaluator's in
every run. *Second half* is the time from the middle of each run on, when the residents have settled.

``--split validation`` is what ``SETTINGS`` and the exchange were chosen on. Runs that
``benchmarks/results/residency_gain.csv`` already has are kept; ``--fresh`` simulates all again. Writes that
file and ``residency_gain.md``.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import numpy.typing as npt
from csv_lines import read_lines, write_lines
from residency import decoded, rows_of
from uncertainty import assumed_costs
from uncertainty_steps import HORIZONS, Steps, draw_steps, predictor_of, read_shared_trace, split_of

from prescope.formulation import Demand, Instance, makespan_ns
from prescope.formulation.demand import FloatArray
from prescope.instances import choose_residents, popularity
from prescope.runtime.control.guarded_gate import run_gate
from prescope.runtime.control.rollout import Rollout, site_of
from prescope.runtime.control.step_state import LAYER_END, LINK, Site, StepState, new_state
from prescope.solver.online import ExpectedPolicy
from prescope.solver.online.gate_arrays import PolicyCode
from prescope.solver.online.guard import GuardMemory
from prescope.solver.residency import (
    Learned,
    MovingAverage,
    OutlookSettings,
    OutlookSums,
    ResidencyRule,
    fit_outlook,
)

HERE = Path(__file__).parent
TRACE = HERE.parents[1] / "shared" / "traces" / "gptoss_20b.npz"
# Batch, MB of an expert, link and host in GB/s, and the gain in percent that a study before this code had.
CELLS = (
    (1, 13.2, 24, 120, 25.8), (1, 50.0, 24, 60, 38.2), (4, 13.2, 24, 120, 16.0), (4, 50.0, 24, 60, 15.2),
    (8, 13.2, 24, 120, 10.1), (8, 50.0, 24, 60, 7.5), (32, 13.2, 24, 120, 6.4),
)  # fmt: skip
SLOTS = 8
PREFETCH = ExpectedPolicy().code
NONE = PolicyCode(ahead=0, copies=0, expected=False, spread=0.0)
STEP_BY_STEP = ", step by step"
# Policy and residency rule.
WAYS = {
    "no prefetch": (NONE, ""),
    "no prefetch, learned": (NONE, "learned"),
    "expected": (PREFETCH, ""),
    "expected, average": (PREFETCH, "average"),
    "expected, learned": (PREFETCH, "learned"),
    f"expected{STEP_BY_STEP}": (PREFETCH, ""),
    f"expected, average{STEP_BY_STEP}": (PREFETCH, "average"),
    f"expected, learned{STEP_BY_STEP}": (PREFETCH, "learned"),
}
BEST = "expected, learned"
# Of the outlook model, at batch 1 and above; chosen on validation sequences, see docs/residency.md.
ALONE = OutlookSettings(discount=0.8, neighbours=2, penalty=1e-3)
SETTINGS = OutlookSettings(discount=0.7, neighbours=2, penalty=1e-4)
RUNS = {1: 4, 4: 2}


def main() -> int:
    """Simulate all cells and write both files."""
    options = parser().parse_args()
    if not options.trace.exists():
        print(f"nothing to do: no trace {options.trace}", file=sys.stderr)
        return 0
    trace = read_shared_trace(options.trace)
    split = split_of(trace)
    model = predictor_of(trace, options.predictor)
    shares = popularity(trace, rows=np.concatenate([rows_of(trace, one) for one in split.train]))
    start = 4 * shares / shares.sum(axis=1, keepdims=True)
    counts = [decoded(trace, one) for one in split.train]
    outlooks = {settings: fit_outlook(counts, start, settings) for settings in (ALONE, SETTINGS)}
    residents = choose_residents(shares, fraction=0.25)
    sequences = split.test if options.split == "test" else split.validation
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"residency_gain{'' if options.split == 'test' else '_validation'}.csv"
    lines = read(path, fresh=options.fresh)
    for seed in range(options.seeds):
        for batch in sorted({cell[0] for cell in CELLS}):
            for run in range(RUNS.get(batch, 1)):
                if any((one["seed"], one["batch"], one["run"]) == (seed, batch, run) for one in lines):
                    continue
                window = options.steps if batch < 32 else options.steps // 2
                steps = draw_steps(
                    trace, model, sequences, batch=batch, seed=seed + 1000 * run, windows=1, window=window
                )
                settings = ALONE if batch == 1 else SETTINGS
                for cell in CELLS:
                    if cell[0] == batch:
                        lines += run_cell(cell, seed, run, steps, residents, start, outlooks[settings])
                write_lines(path, lines)
                print(f"seed {seed} batch {batch} run {run}: {len(lines)} lines", file=sys.stderr)
    path.with_suffix(".md").write_text(markdown(lines, options), encoding="utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--trace", type=Path, default=TRACE)
    options.add_argument("--predictor", type=Path, default=HERE.parent / ".cache" / "uncertainty_predictor")
    options.add_argument("--split", choices=("test", "validation"), default="test")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--steps", type=int, default=110, help="steps in a row; half of them at batch 32")
    options.add_argument("--fresh", action="store_true", help="simulate runs again that are known")
    options.add_argument("--output", type=Path, default=HERE / "results")
    return options


def run_cell(
    cell: Any, seed: int, run: int, steps: Steps, residents: Any, start: FloatArray, outlook: OutlookSums
) -> list[dict[str, Any]]:
    """Every way over the same steps."""
    batch, size_mb, link, cpu, _ = cell
    layers = len(residents)
    total = len(steps.counts)
    instance = Instance(
        name="steps",
        costs=assumed_costs(size_mb, link, cpu, total),
        demand=Demand(counts=steps.counts, batch_tokens=batch),
        residents=residents * (total // layers),
        slots=SLOTS,
        lookahead=total,
    )
    curve = instance.costs.cpu[0]
    costs = {"fixed_ns": float(2 * curve(1) - curve(2)), "per_token_ns": float(curve(2) - curve(1))}
    decay = 0.03 if batch == 1 else 0.1
    rules: dict[str, ResidencyRule] = {
        "average": MovingAverage(start / start.sum(axis=1)[:, None], decay=decay, **costs),
        "learned": Learned(start, outlook, **costs),
    }
    worth = {name: worth_of(rule, steps, layers) for name, rule in rules.items()}
    lines = []
    for way, (code, rule) in WAYS.items():
        alone = way.endswith(STEP_BY_STEP)
        ends_ns, swaps = simulate(instance, steps, layers, code, worth.get(rule), step_by_step=alone)
        lines.append(
            {
                "seed": seed,
                "run": run,
                "batch": batch,
                "expert_mb": size_mb,
                "link_gb_s": link,
                "cpu_gb_s": cpu,
                "way": way,
                "steps": total // layers,
                "time_ns": int(ends_ns[-1]),
                "second_half_ns": int(ends_ns[-1] - ends_ns[len(ends_ns) // 2 - 1]),
                "swaps": swaps,
            }
        )
    return lines


def worth_of(rule: ResidencyRule, steps: Steps, layers: int) -> FloatArray:
    """Scores after every step, ``[steps, layers, E]``."""
    scores = []
    if steps.before is not None:
        for counts in steps.before.reshape(-1, layers, steps.counts.shape[1]):
            rule.observe(counts)
    for counts in steps.counts.reshape(-1, layers, steps.counts.shape[1]):
        rule.observe(counts)
        found = rule.scores()
        if found is None:
            raise RuntimeError("expected scores, got none")
        scores.append(np.array(found))
    return np.stack(scores)


def simulate(
    instance: Instance,
    steps: Steps,
    layers: int,
    code: PolicyCode,
    worth: FloatArray | None,
    *,
    step_by_step: bool = False,
) -> tuple[npt.NDArray[np.int64], int]:
    """End of every step, gate by gate, and how often a place changed hands."""
    whole = site_of(instance)
    total, experts = steps.counts.shape
    ahead = min(max(code.ahead, 0), HORIZONS)
    memory = GuardMemory.fresh(ahead) if code.guard else None
    size = layers if step_by_step else total
    ends = np.zeros(total, dtype=np.int64)
    swaps = began_ns = link_ready_ns = 0
    for first in range(0, total, size):
        here = slice(first, first + size)
        site = whole._replace(
            dense_ns=whole.dense_ns[here],
            copy_ns=whole.copy_ns[here],
            prediction_ns=whole.prediction_ns[here],
            resident=whole.resident[here],
        )
        state = new_state(size, experts, slots=SLOTS, ahead=ahead, link_ready_ns=link_ready_ns, memory=memory)
        gpu, cpu = (np.full((size, experts), -1, dtype=np.int64) for _ in range(2))
        for layer in range(-1, size):
            coming = min(ahead, size - 1 - layer)
            rows = np.arange(coming)
            state.coming.probability[:coming] = steps.probabilities[rows, first + layer + 1 + rows]
            state.coming.cpu_ns[:coming] = steps.expected_tokens[rows, first + layer + 1 + rows]
            counts = np.zeros(experts, dtype=np.int64) if layer < 0 else steps.counts[first + layer]
            run_gate(site, state, layer, counts, coming, code)
            if layer < 0:
                continue
            now = first + layer
            ends[now] = began_ns + state.clock[LAYER_END]
            gpu[layer, : state.counters[1]] = state.answer.gpu[: state.counters[1]]
            cpu[layer, : state.counters[2]] = state.answer.cpu[: state.counters[2]]
            if worth is not None and now + layers < total:
                after = whole.resident[now + layers]
                after[:] = whole.resident[now]
                swaps += exchange_layer(site, state, layer, after, worth[now // layers, now % layers])
        rolled = Rollout(
            layer_end_ns=ends[here] - began_ns,
            gpu=gpu,
            cpu=cpu,
            copies=state.copies[: state.counters[0]].copy(),
        )
        judged = replace(
            instance,
            costs=replace(instance.costs, expert_bytes=instance.costs.expert_bytes[here]),
            demand=Demand(counts=steps.counts[here], batch_tokens=instance.demand.batch_tokens),
            residents=tuple(tuple(row.nonzero()[0].tolist()) for row in site.resident),
            link_ready_ns=link_ready_ns,
        )
        if began_ns + makespan_ns(judged, rolled.plan()) != ends[here][-1]:
            raise RuntimeError("expected the clock of the exact evaluator, got another")
        began_ns = int(ends[here][-1])
        link_ready_ns = max(0, int(state.clock[LINK] - state.clock[LAYER_END]))
    return ends[layers - 1 :: layers], swaps


def exchange_layer(
    site: Site,
    state: StepState,
    layer: int,
    after: npt.NDArray[np.bool_],
    worth: npt.NDArray[np.float64],
) -> int:
    """Who was brought for this layer takes the place of someone in it who is worth less.

    ``after`` are the layer's residents in the next step. Places that move between layers were worse on
    validation sequences at every batch.
    """
    arrival = state.arrival_ns[layer]
    coming = np.flatnonzero((arrival >= 0) & (arrival <= state.clock[LAYER_END]))
    computed = set(
        state.answer.gpu[: state.counters[1]].tolist() + state.answer.cpu[: state.counters[2]].tolist()
    )
    owners = slot_owners(site, state, layer)
    swaps = 0
    for expert in sorted(coming.tolist(), key=lambda one: -worth[one]):
        # The slot becomes the resident's: where the link has it again already, only one at rest can give way.
        owner = owners.get(int(state.slot_of[layer, expert]), (layer, expert))
        places = [
            one
            for one in np.flatnonzero(after & site.resident[layer]).tolist()
            if worth[one] < worth[expert] and (owner == (layer, expert) or one not in computed)
        ]
        if not places:
            continue
        victim = min(places, key=lambda one: worth[one])
        after[victim], after[expert] = False, True
        swaps += 1
    return swaps


def slot_owners(site: Site, state: StepState, layer: int) -> dict[int, tuple[int, int]]:
    """Last expert for which a copy into a slot has begun between the gate of a layer and its end."""
    issued = state.copies[: state.counters[0]]
    return {
        int(slot): (target, expert)
        for target, expert, slot, gate in issued[issued[:, 3] == layer].tolist()
        if state.arrival_ns[target, expert] - site.copy_ns[target] < state.clock[LAYER_END]
    }


def read(path: Path, *, fresh: bool) -> list[dict[str, Any]]:
    """Lines of earlier runs."""
    return [
        {key: text if key == "way" else (float if "." in text else int)(text) for key, text in one.items()}
        for one in read_lines(path, fresh=fresh)
    ]


def markdown(lines: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The table for people."""
    parts = [
        "# Prefetch and moving residents together\n",
        f"Made by `python benchmarks/residency_gain.py --split {options.split}` (do not edit): "
        f"{options.split} sequences, {options.seeds} seeds of {options.steps} steps (half at batch 32; four "
        "such runs a seed at batch 1, two at batch 4), simulated. Time saved over residents that never move "
        "without prefetch, in percent; mean and, in brackets, standard deviation over the seeds. *Second "
        "half*: prefetch with learned retention from the middle of each run on. *Step by step*: forecasts "
        "and copies end with their step, as in the plug-in. *Study*: what a study with other code, steps and "
        "forecasts had for prefetch with learned retention.\n",
        "| cell | no prefetch, ms/step | " + " | ".join(list(WAYS)[1:]) + " | second half | study |",
        "| --- |" + " ---: |" * (len(WAYS) + 2),
    ]
    for cell in CELLS:
        here = [line for line in lines if (line["batch"], line["expert_mb"]) == cell[:2]]
        still = [line for line in here if line["way"] == "no prefetch"]
        per_step = sum(one["time_ns"] for one in still) / sum(one["steps"] for one in still) / 1e6
        columns = [gains(here, way, "time_ns") for way in list(WAYS)[1:]]
        columns += [gains(here, BEST, "second_half_ns")]
        batch, size_mb, link, cpu, study = cell
        name = f"batch {batch}, {size_mb:g} MB, link {link}, host {cpu} GB/s"
        parts.append(f"| {name} | {per_step:.2f} | " + " | ".join(columns) + f" | {study} |")
    return "\n".join(parts) + "\n"


def gains(lines: list[dict[str, Any]], way: str, field: str) -> str:
    """Time saved by a way, in percent: mean and standard deviation over the seeds."""
    saved = []
    for seed in sorted({line["seed"] for line in lines}):
        with_it, without = (
            sum(one[field] for one in lines if (one["seed"], one["way"]) == (seed, name))
            for name in (way, "no prefetch")
        )
        saved.append(100 * (1 - with_it / without))
    return f"{mean(saved):.1f} ({stdev(saved) if len(saved) > 1 else 0:.1f})"


if __name__ == "__main__":
    sys.exit(main())
