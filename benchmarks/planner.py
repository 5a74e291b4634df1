"""How long planning takes and how far plans are from the lower bound, for the nine models.

``python benchmarks/planner.py`` plans synthetic batches (Zipf 0.8, drift 0.5, the 25 % most popular experts
resident, demand known) and writes ``benchmarks/results/planner.csv`` (one line per batch) and ``planner.md``
(means per model and batch size). All times are wall times of this machine on one core, compiled code warm;
steps are planned, not executed. Exit code 1 when a plan of ``dp`` is behind a rule by more than 0.1 %.

Planning is timed in parts:

- plan: from the instance's duration arrays to the chosen experts of all layers with their exact makespan
  (sorting, tables, lead DP, simulation), without local search;
- fast: the same with the budgeted descent;
- as objects: writing a chosen plan as a `Plan`, which the runtime's compiled path does not need;
- full: what ``prescope solve`` does by default, several descents and the proof of the bound included;
- gate: one layer's re-plan from its true counts (sorting, table, recourse on the saved value function).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean
from time import perf_counter_ns
from typing import Any

import numpy as np
from csv_lines import write_lines

from prescope.formulation import Instance, instance_arrays, model_names
from prescope.formulation.workload import layer_tables, workload
from prescope.instances import synthetic_instance
from prescope.solver import lower_bound, solve
from prescope.solver.build_plan import build_plan
from prescope.solver.methods.dp import LeadDp, Polish
from prescope.solver.quick import quick_plan
from prescope.solver.value_function import ValueFunction

BATCHES = (1, 32)
RULES = ("on-demand", "cpu-only", "intra-layer", "presched")
TOLERANCE = 0.001
# An earlier prototype's figures on other synthetic batches, links of 12 and 24 GB/s: step in ms, time of the
# DP alone in ms, mean gap of its plan in percent. For comparison of size only.
EARLIER = {
    ("mixtral-8x7b", 1): (104, 0.01, 0.00),
    ("deepseek-v2-lite", 1): (16, 0.02, 0.00),
    ("deepseek-v2-lite", 32): (152, 0.08, 0.01),
    ("qwen3-30b-a3b", 1): (24, 0.06, 0.00),
    ("qwen3-30b-a3b", 32): (262, 0.47, 0.00),
}


def main() -> int:
    """Measure, write both files, and say whether dp held its place."""
    options = parser().parse_args()
    lines = []
    warm_up(options.machine)
    for model in options.models:
        for batch in options.batches:
            for seed in range(options.seed, options.seed + options.seeds):
                lines.append(measure(model, options.machine, batch, seed, options.lookahead))
            print(f"{model} batch {batch}: {len(lines)} batches planned", file=sys.stderr)
    options.output.mkdir(parents=True, exist_ok=True)
    write_lines(options.output / "planner.csv", lines)
    (options.output / "planner.md").write_text(markdown(lines, options), encoding="utf-8")
    behind = [line for line in lines if line["behind_best_rule"] > TOLERANCE]
    for line in behind:
        print(f"behind a rule: {line['model']} batch {line['batch']} seed {line['seed']}", file=sys.stderr)
    return 1 if behind else 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--models", nargs="+", default=model_names(), choices=model_names(), metavar="MODEL")
    options.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    options.add_argument("--machine", default="lab")
    options.add_argument("--lookahead", type=int, default=None, help="default: known from the start")
    options.add_argument("--seed", type=int, default=0, help="first seed")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return options


def best_ns(action: Callable[[], Any], repeats: int = 7) -> int:
    """Shortest wall time of a few runs: the others were disturbed by the rest of the machine."""
    times = []
    for _ in range(repeats):
        begin = perf_counter_ns()
        action()
        times.append(perf_counter_ns() - begin)
    return min(times)


def plan(instance: Instance) -> tuple[Any, int, ValueFunction]:
    """The timed unit: chosen experts of all layers, exact makespan, value function."""
    work = workload(instance)
    return quick_plan(work, layer_tables(work))


def replan_gate(instance: Instance, function: ValueFunction, layer: int) -> Any:
    """One gate: sort the layer's activated experts, build its table, choose by the saved value function."""
    arrays = instance_arrays(instance)
    return function.replan(
        layer,
        0.0,
        active=arrays.active[layer],
        resident=arrays.resident[layer],
        cpu_ns=arrays.cpu_ns[layer],
        gpu_ns=arrays.gpu_ns[layer],
    )


def warm_up(machine: str) -> None:
    """Compile everything that is timed."""
    instance = synthetic_instance("olmoe-1b-7b", machine, 4, 0)
    _, _, function = plan(instance)
    replan_gate(instance, function, 0)
    for method in (*RULES, "dp"):
        solve(instance, method=method)
    lower_bound(instance)


def measure(model: str, machine: str, batch: int, seed: int, lookahead: int | None) -> dict[str, Any]:
    """All figures of one batch."""
    instance = synthetic_instance(model, machine, batch, seed, lookahead=lookahead)
    instance_arrays(instance)
    work = workload(instance)
    choice, plain_ns, function = plan(instance)
    replan_gate(instance, function, 0)
    gates = [
        best_ns(lambda layer=layer: replan_gate(instance, function, layer), 3)  # type: ignore[misc]
        for layer in range(instance.layers)
    ]
    object_ns = best_ns(lambda: build_plan(work, choice), 3)
    full, fast = solve(instance), solve(instance, method=LeadDp(polish=Polish.FAST))
    rules = {rule: solve(instance, method=rule).makespan_ns for rule in RULES}
    bound_ns = full.lower_bound_ns
    bound_time_ns = best_ns(lambda: lower_bound(instance, upper_ns=full.makespan_ns), 1)

    def gap(makespan_ns: int | None) -> float:
        assert makespan_ns is not None
        return (makespan_ns - bound_ns) / bound_ns

    return {
        "model": model,
        "machine": machine,
        "batch": batch,
        "seed": seed,
        "lookahead": instance.lookahead,
        "slots": instance.slots,
        "step_ns": full.makespan_ns,
        "lower_bound_ns": bound_ns,
        "plan_ns": best_ns(lambda: plan(instance)),
        "objects_ns": object_ns,
        "fast_ns": fast.time_ns - object_ns,
        "full_ns": full.time_ns,
        "bound_time_ns": bound_time_ns,
        "gate_p50_ns": int(np.percentile(gates, 50)),
        "gate_max_ns": max(gates),
        "gap_plan": gap(plain_ns),
        "gap_fast": gap(fast.makespan_ns),
        "gap_full": gap(full.makespan_ns),
        **{f"gap_{rule}": gap(makespan_ns) for rule, makespan_ns in rules.items()},
        "behind_best_rule": max(gap(full.makespan_ns) - min(map(gap, rules.values())), 0.0),
    }


def shifted_geometric_mean(values: Iterable[float], shift: float) -> float:
    """Geometric mean of ``value + shift``, less the shift: small values cannot dominate it."""
    return float(np.exp(np.mean(np.log(np.array(list(values)) + shift))) - shift)


def markdown(lines: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The summary."""
    ahead = "from the start" if options.lookahead is None else f"{options.lookahead} layers ahead"
    text = [
        "# Planning: time and distance from the lower bound",
        "",
        f"Made by `python benchmarks/planner.py`. Synthetic batches, machine `{options.machine}`, "
        f"demand known {ahead}, {options.seeds} seeds from {options.seed}. Times: {platform.machine()} "
        f"({os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end), Python "
        f"{platform.python_version()}, one core, compiled code warm, best of a few runs; `fast` and `full` "
        "are single runs. Steps are planned, not executed.",
        "",
        "`plan` is the lead DP without local search up to the exact makespan of the chosen experts; `fast` "
        "adds the budgeted descent (plan object not counted); `full` is `prescope solve`. `gate` is one "
        "layer's re-plan from its true counts. Gaps are means (maxima) to the proved lower bound.",
        "",
        "| model | batch | step ms | plan ms | % of step | fast ms | full ms | object ms | gate us | "
        "gap plan % | gap fast % | gap full % | presched % | intra-layer % "
        "| earlier: step ms, DP ms, gap % |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for model in options.models:
        for batch in options.batches:
            mine = [line for line in lines if (line["model"], line["batch"]) == (model, batch)]
            text.append(row(model, batch, mine))
    plans = [line["plan_ns"] / 1e6 for line in lines]
    share = max(line["plan_ns"] / line["step_ns"] for line in lines)
    text += [
        "",
        f"Plan time over all {len(lines)} batches: shifted geometric mean "
        f"{shifted_geometric_mean(plans, 0.1):.3f} ms (shift 0.1 ms), 99th percentile "
        f"{np.percentile(plans, 99):.2f} ms; at most {share:.2%} of the step. "
        f"Gate: median {np.median([line['gate_p50_ns'] for line in lines]) / 1e3:.1f} us, slowest "
        f"{max(line['gate_max_ns'] for line in lines) / 1e3:.1f} us. "
        f"Gap of `full`: mean {mean(line['gap_full'] for line in lines):.4%}, largest "
        f"{max(line['gap_full'] for line in lines):.4%}. "
        f"Behind the best rule by at most {max(line['behind_best_rule'] for line in lines):.4%}.",
        "",
        "`earlier` are a prototype's figures on other synthetic batches (means over links of 12 and 24 GB/s; "
        "its DP time leaves out sorting, tables and simulation): for comparison of size only.",
        "",
    ]
    return "\n".join(text)


def row(model: str, batch: int, mine: list[dict[str, Any]]) -> str:
    """One model and batch size."""

    def average(field: str, scale: float) -> float:
        return mean(line[field] for line in mine) * scale

    def gap(field: str) -> str:
        return f"{average(field, 100):.3f} ({max(line[field] for line in mine) * 100:.3f})"

    share = mean(line["plan_ns"] / line["step_ns"] for line in mine)
    earlier = EARLIER.get((model, batch))
    cells = [
        model,
        str(batch),
        f"{average('step_ns', 1e-6):.1f}",
        f"{average('plan_ns', 1e-6):.3f}",
        f"{share * 100:.2f}",
        f"{average('fast_ns', 1e-6):.2f}",
        f"{average('full_ns', 1e-6):.1f}",
        f"{average('objects_ns', 1e-6):.2f}",
        f"{average('gate_p50_ns', 1e-3):.1f}",
        gap("gap_plan"),
        gap("gap_fast"),
        gap("gap_full"),
        gap("gap_presched"),
        gap("gap_intra-layer"),
        "-" if earlier is None else ", ".join(f"{value:g}" for value in earlier),
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
