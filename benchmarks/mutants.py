"""Damage files of every kind by the thousand and count what becomes of them.

``python -m benchmarks.mutants`` makes 10,000 and more instances, plans and indices, 5,000 and more traces
and logs, and cost files, with seeds, and writes benchmarks/results/mutants.{csv,md}. A mutant is refused
cleanly, or accepted with exactly the meaning that an independent reader finds in it; anything else - another
exception, another meaning, 20 seconds without an answer, more memory than the limit - is a failure, and the
command ends with 1. ``--mutants`` sets how many of each kind of damage, ``--only`` which kinds.
"""

from __future__ import annotations

import argparse
import csv
import logging
import resource
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
# What a reader may take on top of what the process has when it starts: mutants are of files of some 100 KB.
MEMORY_BYTES = 1 << 30


def main() -> int:
    """Run every trial and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=2000)
    parser.add_argument(
        "--only", default="", help="part of the names of the trials to run; nothing is written"
    )
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from mutation_trials import TRIALS, Outcome, run_trial

    logging.disable(logging.WARNING)
    _limit_memory()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in TRIALS:
            if arguments.only in name:
                outcome = run_trial(name, Path(folder) / name.replace(": ", "-"), range(arguments.mutants))
                outcomes.append(outcome)
                counts = ", ".join(
                    f"{count} {verdict}" for verdict, count in sorted(outcome.verdicts.items())
                )
                print(f"{name}: {counts}; slowest {outcome.slowest_s * 1e3:.0f} ms", flush=True)
                for failure in outcome.failures[:5]:
                    print(f"    {failure}")
    if not arguments.only:
        write(outcomes)
    return int(any(outcome.failures for outcome in outcomes))


def write(outcomes: list) -> None:  # type: ignore[type-arg]
    """Results as CSV and as a table."""
    columns = ("refused", "accepted as it says", "accepted, unchanged", "failed")
    rows = [[outcome.name, sum(outcome.verdicts.values())] for outcome in outcomes]
    for row, outcome in zip(rows, outcomes, strict=True):
        row += [outcome.verdicts[column] for column in columns]
    rows.append(["all", *(sum(row[at] for row in rows) for at in range(1, len(rows[0])))])
    with open(RESULTS / "mutants.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([["damage", "mutants", *columns], *rows])
    lines = [
        "# Damaged files",
        "",
        "`python -m benchmarks.mutants`. Damage is seeded; where a file has a checksum, `structure`,",
        "`arrays` and `meta` make it anew. *As it says*: accepted, and an independent reader finds the same",
        "in the file. *Unchanged*: the damage does not touch the meaning. *Failed*: another exception,",
        "another meaning, 20 s, or 1 GiB of memory.",
        "",
        f"| damage | mutants | {' | '.join(columns)} |",
        "| --- |" + " ---: |" * (len(columns) + 1),
        *(f"| {' | '.join(str(value) for value in row)} |" for row in rows),
    ]
    (RESULTS / "mutants.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _limit_memory() -> None:
    used_pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = used_pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    sys.exit(main())
