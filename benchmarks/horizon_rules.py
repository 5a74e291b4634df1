"""Every residency rule on the library's horizons: gaps, share of the offline gain, hit rates, times.

    python -m benchmarks.horizon_rules             # everything; goes on where it was when killed
    python -m benchmarks.horizon_rules --jobs 2    # faster, but plan times then disturb each other

Runs `prescope bench horizons` (rows and plans in ``build/horizon-rules``, each plan checked again), then
writes ``benchmarks/results/horizons.md`` and ``horizons.csv`` (one line per method). Exit code 1 when a bound
is beaten, a rule breaks or a plan is refused.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from prescope.bench import find_cases, markdown_report, read_rows, summarise
from prescope.bench.report_files import summary_csv
from prescope.cli import main as prescope
from prescope.solver.residency import residency_rules

RESULTS = Path(__file__).parent / "results"
WORK = Path(__file__).parents[1] / "build" / "horizon-rules"
PLANNERS = ("dp-fast", "expected")


def main() -> int:
    """Run, check, write."""
    options = parser().parse_args()
    methods = [f"{rule}+{planner}" for planner in PLANNERS for rule in residency_rules()]
    arguments = ["bench", "horizons", "--methods", ",".join(methods), "-o", str(options.work), "--check"]
    arguments += ["--jobs", str(options.jobs)]
    code = prescope([*arguments, *(["--accept-changes"] if options.accept_changes else [])])
    if code > 1:
        return code
    names = {case.name for case in find_cases(["horizons"])}
    rows = [row for row in read_rows(options.work) if row.instance in names]
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "horizons.csv").write_text(summary_csv(summarise(rows)), encoding="utf-8")
    text = (
        "# Residency rules on the library's horizons\n\n"
        "Made by `python -m benchmarks.horizon_rules` (do not edit). "
        "Totals of all steps by the exact evaluator. A method is RULE+PLANNER: `dp-fast` knows the demand of "
        "a step when it begins, `expected` decides at the gates from predictions. The bound also allows "
        "copies at any time and counts slots as places, so that gaps to it are large.\n\n"
    )
    (options.output / "horizons.md").write_text(text + markdown_report(rows), encoding="utf-8")
    return code


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--jobs", type=int, default=1)
    made.add_argument("--accept-changes", action="store_true", help="keep rows of other versions")
    made.add_argument("--work", type=Path, default=WORK, help="folder of rows and plans")
    made.add_argument("--output", type=Path, default=RESULTS)
    return made


if __name__ == "__main__":
    sys.exit(main())
