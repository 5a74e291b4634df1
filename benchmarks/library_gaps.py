"""Every method on every set of the library: gaps, planning times, and their limits.

    python -m benchmarks.library_gaps             # everything; goes on where it was when killed
    python -m benchmarks.library_gaps --jobs 2    # faster, but planning times then disturb each other
    python -m benchmarks.library_gaps --sets tiny-proved --work /tmp/small --output /tmp/small

Runs `prescope bench` (rows and plans in ``build/library-gaps``, each plan checked again), then writes
``benchmarks/results/library.md`` and ``library.csv`` (one line per set and method). Methods of known demand
run on all sets, exact ones on the tiny set only; sets with predicted demand are scored under the true demand,
with the policies that decide at the gates beside the methods. Exit code 1 when a bound is beaten, a solver
breaks or a plan is refused.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.planner import best_ns, plan, replan_gate
from prescope.bench import BenchRow, Case, find_cases, markdown_report, read_rows, summarise
from prescope.bench.report_files import summary_csv
from prescope.bench.statistics import percentile
from prescope.bench.tables import duration, markdown_table, percent
from prescope.cli import main as prescope
from prescope.formulation import instance_arrays
from prescope.instances import list_library
from prescope.solver import methods
from prescope.solver.online import gate_policies

EXACT = ("cp-sat", "cp-sat-table", "milp")
TINY = "tiny-proved"
RESULTS = Path(__file__).parent / "results"
WORK = Path(__file__).parents[1] / "build" / "library-gaps"
SHARE_LIMIT = 0.005
GATE_LIMIT_NS = 20_000
# Durations there are small made-up numbers, whole steps of a few microseconds.
UNREAL = ("adversarial",)
# The sizes the limit of a re-plan is stated for.
GATE_EXPERTS = 128


def main() -> int:
    """Run, check, write."""
    options = parser().parse_args()
    # Horizons have other methods: `prescope bench horizons`.
    known = list(dict.fromkeys(entry.set for entry in list_library() if entry.steps is None))
    sets = options.sets or known
    cases = {name: find_cases([name]) for name in sets}
    failed = False
    rows: list[BenchRow] = []
    for name in sets:
        predicted = any(case.instance.predicted is not None for case in cases[name])
        folder = options.work / name
        chosen = ",".join(chosen_methods(name, predicted))
        print(f"{name}: {len(cases[name])} instances, {chosen}", file=sys.stderr)
        arguments = ["bench", name, "--methods", chosen, "-o", str(folder), "--jobs", str(options.jobs)]
        code = prescope([*arguments, *(["--accept-changes"] if options.accept_changes else []), "--check"])
        if code > 1:
            return code
        failed |= code == 1
        wanted = {case.name for case in cases[name]}
        rows += [row for row in read_rows(folder) if row.instance in wanted]
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "library.csv").write_text(summary_csv(summarise(rows)), encoding="utf-8")
    text = page(rows, [case for name in sets for case in cases[name]])
    (options.output / "library.md").write_text(text, encoding="utf-8")
    return int(failed)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--sets", nargs="+", help="only these")
    made.add_argument("--jobs", type=int, default=1)
    made.add_argument("--accept-changes", action="store_true", help="keep rows of other versions")
    made.add_argument("--work", type=Path, default=WORK, help="folder of rows and plans")
    made.add_argument("--output", type=Path, default=RESULTS)
    return made


def chosen_methods(name: str, predicted: bool) -> list[str]:
    """What runs on a set."""
    known = [method for method in methods() if method not in EXACT or name == TINY]
    if predicted:
        # At every gate anew: methods that take long would take that long at each.
        known = [method for method in known if method not in EXACT]
        return [*known, *(f"gate:{policy}" for policy in gate_policies())]
    return known


def page(rows: Sequence[BenchRow], cases: Sequence[Case]) -> str:
    """The whole page."""
    return "\n".join(
        [
            "# The library: gaps and planning times",
            "",
            "Made by `python -m benchmarks.library_gaps`; docs/benchmarking.md says how to read it.",
            "",
            markdown_report(rows),
            "## Limits of planning time",
            "",
            markdown_table(
                ("what", "limit", "share within", "median", "p99", "largest"), limits(cases), left=1
            ),
            "",
            "Whole batch: the lead DP from the duration arrays of the instance up to the exact makespan of "
            "the chosen experts, without local search and without writing the plan as objects (the runtime's "
            "compiled path needs neither); best of seven, one thread. `dp-fast` in the tables above adds the "
            "budgeted descent and the objects. Re-plan: one layer from its true counts at "
            f"E = {GATE_EXPERTS} experts, best of three for every layer. Measured on the machine named "
            "above; steps are planned. Left out: "
            f"{', '.join(UNREAL)}, whose steps are a few made-up microseconds.",
            "",
        ]
    )


def limits(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """Planning times of the compiled planner on known demand, against what they may take."""
    by_set: dict[str, list[float]] = {}
    gates: list[int] = []
    for case in cases:
        instance = case.instance
        if instance.predicted is not None or case.set in UNREAL:
            continue
        instance_arrays(instance)
        _, step_ns, function = plan(instance)
        taken_ns = best_ns(lambda instance=instance: plan(instance))  # type: ignore[misc]
        by_set.setdefault(case.set, []).append(taken_ns / max(step_ns, 1))
        if instance.experts == GATE_EXPERTS:
            gates += [
                best_ns(lambda i=instance, f=function, n=layer: replan_gate(i, f, n), 3)  # type: ignore[misc]
                for layer in range(instance.layers)
            ]
    found = []
    everything = [share for shares in by_set.values() for share in shares]
    for name, shares in [*by_set.items(), ("all", everything)]:
        within = np.mean(np.array(shares) <= SHARE_LIMIT)
        middle = [percent(percentile(shares, q)) for q in (50, 99, 100)]
        share = percent(float(within))
        found.append((f"whole batch of its step, {name}", percent(SHARE_LIMIT), share, *middle))
    if gates:
        within = np.mean(np.array(gates) <= GATE_LIMIT_NS)
        middle = [duration(percentile(gates, q)) for q in (50, 99, 100)]
        found.append(("re-plan at a gate", duration(GATE_LIMIT_NS), percent(float(within)), *middle))
    return found


if __name__ == "__main__":
    sys.exit(main())
