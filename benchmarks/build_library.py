"""Rebuild the instance library: generate, solve, and write instances, best plans and the index.

    python -m benchmarks.build_library                # everything
    python -m benchmarks.build_library --set disk     # one set (repeatable)
    python -m benchmarks.build_library --record       # first record the tiny model's routing and predictions

A stored plan stays until a better one is found; bounds are proved anew. From the same library the same
sources give the same files: methods run with one worker, seeds and no limit of wall time, and the time a
plan took is left out.
"""

import argparse
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.library_plans import best_plan
from prescope.formulation import Instance, Plan
from prescope.instances import (
    LibraryEntry,
    library_root,
    list_library,
    load_library_plan,
    verify_library,
    write_index,
    write_instance,
    write_plan,
    write_trace,
)
from prescope.instances.library import INDEX
from prescope.instances.library_recipes import SETS
from prescope.instances.library_recipes.predicted import PREDICTIONS
from prescope.instances.library_recipes.sources import RECORDING


def stored_plan(instance: Instance) -> Plan | None:
    """Return the plan the library has for this very problem, if any."""
    try:
        file = load_library_plan(instance.name)
        file.require_instance(instance)
    except ValueError:
        return None  # a new name, or the problem changed: its old plan says nothing about it
    return file.plan


def build_set(name: str, folder: Path, *, fresh: bool) -> list[LibraryEntry]:
    """Write one set's files into a folder and return its entries."""
    entries = []
    folder.mkdir(parents=True)
    for file in SETS[name]():
        plan, best_ns, bounds = best_plan(
            file.instance, None if fresh else stored_plan(file.instance), proved=name == "tiny-proved"
        )
        solved = replace(file, bounds=bounds)
        path = f"{name}/{file.instance.name}.json.gz"
        sha256 = write_instance(folder.parent / path, solved)
        plan_path = folder.parent / f"{name}/{file.instance.name}.plan.json.gz"
        entry = LibraryEntry(
            name=file.instance.name,
            set=name,
            path=path,
            layers=file.instance.layers,
            experts=file.instance.experts,
            tokens=file.instance.demand.batch_tokens,
            slots=file.instance.slots,
            optimum_ns=bounds.optimum_ns,
            optimum_by=bounds.optimum_by,
            lower_bound_ns=bounds.lower_bound_ns,
            lower_bound_by=bounds.lower_bound_by,
            best_ns=best_ns,
            best_by=plan.info.method,
            sha256=sha256,
            plan_sha256=write_plan(plan_path, plan, file.instance),
        )
        entries.append(entry)
        gap = 100 * (best_ns / (bounds.lower_bound_ns or best_ns) - 1)
        print(f"{entry.name:60} {best_ns / 1e6:10.3f} ms  gap {gap:.4f} %  {entry.best_by}", flush=True)
    return entries


def install(built: Path, root: Path, names: list[str]) -> None:
    """Put the sets' new files in place of the old ones; other files of a set (README) stay."""
    for name in names:
        target = root / name
        target.mkdir(parents=True, exist_ok=True)
        for old in target.glob("*.json.gz"):
            old.unlink()
        for new in sorted((built / name).iterdir()):
            shutil.move(new, target / new.name)


def main() -> int:
    """Build, install, verify."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=list(SETS), action="append", help="only this one (repeatable)")
    parser.add_argument("--record", action="store_true", help="record the tiny model first")
    parser.add_argument("--fresh", action="store_true", help="forget the stored plans, however good")
    arguments = parser.parse_args()
    root, names = library_root(), arguments.set or list(SETS)
    if arguments.record:
        from benchmarks.record_tiny_predictions import record_tiny_predictions
        from benchmarks.record_tiny_routing import record_tiny_routing

        write_trace(root / RECORDING, record_tiny_routing())
        record_tiny_predictions(root / PREDICTIONS)
    with tempfile.TemporaryDirectory() as scratch:
        entries = [
            entry for name in names for entry in build_set(name, Path(scratch) / name, fresh=arguments.fresh)
        ]
        install(Path(scratch), root, names)
    # Read only now: another set may have been built meanwhile.
    listed = list_library() if (root / INDEX).exists() else []
    kept = [entry for entry in listed if entry.set not in names and entry.set in SETS]
    order = list(SETS)
    write_index(root, sorted([*kept, *entries], key=lambda entry: (order.index(entry.set), entry.name)))
    faults = verify_library()
    for fault in faults:
        print(f"{fault.name}: {fault.problem}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
