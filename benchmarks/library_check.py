"""Quick gap table of the library: every rule and dp on every instance, per set and method.

    python -m benchmarks.library_check [SET ...]

Writes ``benchmarks/results/library_check.csv`` (one line per instance) and ``library_check.md``: mean and
largest gap to the stored lower bound by set and method. Predictions are ignored: demand is known here.

An instance *discriminates* when the second best of the rules is more than 1 % behind the best one, or the
gap between the best stored plan and the stored bound is above 0.1 %. Rules are dp and all registered methods
except the extremes `cpu-only` and `on-demand`, the fast variant of dp, and the exact methods, which are given
no time here.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from prescope.instances import LibraryEntry, list_library, load_library_instance
from prescope.solver import SolverError, UnsuitableInstanceError, methods, solve

EXTREMES = ("cpu-only", "on-demand")
VARIANTS = ("dp-fast",)
EXACT = ("cp-sat", "cp-sat-table", "milp")
APART = 0.01
OPEN = 0.001
HEADING = """# The library: gaps by set and method

Made by `python -m benchmarks.library_check`. Mean (largest) gap in percent to the stored lower bound, by the
exact evaluator; `best` is the stored plan. Planned, with known demand; nothing is timed.

"""
RESULTS = Path(__file__).parent / "results" / "library_check.csv"


def rules() -> tuple[str, ...]:
    """Return the methods that are compared."""
    return tuple(name for name in methods() if name not in EXACT)


def instances(sets: list[str]) -> list[LibraryEntry]:
    """Return the instances of sets, by default of all; horizons have other methods."""
    entries = [entry for entry in list_library(sets=sets or None) if entry.steps is None]
    if not entries:
        raise SystemExit(f"expected sets with instances, got {', '.join(sets)}")
    return entries


def measure(entry: LibraryEntry) -> dict[str, int | None]:
    """Return the makespan of every rule; ``None`` where it does not apply."""
    instance = load_library_instance(entry.name).instance
    found: dict[str, int | None] = {}
    for name in rules():
        try:
            found[name] = solve(instance, method=name).makespan_ns
        except UnsuitableInstanceError:
            found[name] = None
        except SolverError as error:
            print(f"{entry.name} {name}: {error}", file=sys.stderr)
            found[name] = None
    return found


def discriminates(entry: LibraryEntry, found: dict[str, int | None]) -> bool:
    """Whether methods differ by more than 1 %, or the best plan is open by more than 0.1 %."""
    values = sorted(v for name, v in found.items() if v is not None and name not in (*EXTREMES, *VARIANTS))
    apart = len(values) > 1 and values[1] > values[0] * (1 + APART)
    return apart or _gap(entry.best_ns, entry.lower_bound_ns) > OPEN


def _gap(value_ns: int | None, bound_ns: int | None) -> float:
    if value_ns is None or bound_ns is None or value_ns == bound_ns:
        return 0.0
    return (value_ns - bound_ns) / max(bound_ns, 1)


def table(lines: list[dict[str, Any]]) -> str:
    """Return mean and largest gap in percent by set and method."""
    names = ("best", *rules())
    text = ["| set | instances | discriminate | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 3)]
    groups = [
        (name, [x for x in lines if x["set"] == name]) for name in dict.fromkeys(x["set"] for x in lines)
    ]
    groups += [("all", lines), ("all, >= 2 slots", [x for x in lines if x["slots"] >= 2])]
    for name, mine in groups:
        cells = []
        for method in names:
            gaps = [100 * x[method] for x in mine if x[method] is not None]
            cells.append(f"{mean(gaps):.3f} ({max(gaps):.3f})" if gaps else "-")
        told = sum(x["discriminates"] for x in mine)
        text.append(f"| {name} | {len(mine)} | {told} | " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n"


def main() -> int:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", help="by default all")
    arguments = parser.parse_args()
    entries = instances(arguments.sets)
    lines: list[dict[str, Any]] = []
    bad = 0
    for number, entry in enumerate(entries):
        found = measure(entry)
        below = [
            name for name, value in found.items() if value is not None and value < (entry.lower_bound_ns or 0)
        ]
        for name in below:
            bad += 1
            print(f"BOUND VIOLATED: {entry.name} by {name}", file=sys.stderr)
        for name, value in found.items():
            if value is not None and value < (entry.best_ns or 0):
                print(
                    f"better than stored: {entry.name} by {name}: {value} < {entry.best_ns}", file=sys.stderr
                )
        lines.append(
            {
                "instance": entry.name,
                "set": entry.set,
                "slots": entry.slots,
                "discriminates": int(discriminates(entry, found)),
                "best": _gap(entry.best_ns, entry.lower_bound_ns),
                **{name: None if v is None else _gap(v, entry.lower_bound_ns) for name, v in found.items()},
            }
        )
        if number % 20 == 0:
            print(f"{number} of {len(entries)}", file=sys.stderr, flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    with open(RESULTS, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    document = table(lines)
    RESULTS.with_suffix(".md").write_text(HEADING + document, encoding="utf-8")
    sys.stdout.write(document)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
