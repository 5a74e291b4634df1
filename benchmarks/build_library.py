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
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.library_plans import best_horizon_plan, best_plan
from prescope.formulation import Instance, Plan
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.instances import (
    HorizonFile,
    InstanceFile,
    LibraryEntry,
    library_root,
    list_library,
    load_library_horizon_plan,
    load_library_plan,
    verify_library,
    write_horizon,
    write_horizon_plan,
    write_index,
    write_instance,
    write_plan,
    write_trace,
)
from prescope.instances.library_index import INDEX
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


def stored_horizon_plan(horizon: Horizon) -> HorizonPlan | None:
    """Return the plan the library has for this very horizon, if any."""
    try:
        file = load_library_horizon_plan(horizon.name)
        file.require_horizon(horizon)
    except ValueError:
        return None
    return file.plan


def build_set(name: str, folder: Path, *, fresh: bool) -> list[LibraryEntry]:
    """Write one set's files into a folder and return its entries."""
    entries = []
    folder.mkdir(parents=True)
    for file in SETS[name]():
        made = build_horizon_entry if isinstance(file, HorizonFile) else build_entry
        entry = made(name, file, folder.parent, fresh)  # type: ignore[operator]
        entries.append(entry)
        best_ns = entry.best_ns or 0
        gap = 100 * (best_ns / (entry.lower_bound_ns or best_ns) - 1)
        print(f"{entry.name:60} {best_ns / 1e6:10.3f} ms  gap {gap:.4f} %  {entry.best_by}", flush=True)
    return entries


def build_entry(name: str, file: InstanceFile, root: Path, fresh: bool) -> LibraryEntry:
    """Plan an instance, write both files and return the line of the index."""
    instance = file.instance
    plan, best_ns, bounds = best_plan(
        instance, None if fresh else stored_plan(instance), proved=name == "tiny-proved"
    )
    path, plan_path = (f"{name}/{instance.name}{ending}" for ending in (".json.gz", ".plan.json.gz"))
    return LibraryEntry(
        name=instance.name,
        set=name,
        path=path,
        layers=instance.layers,
        experts=instance.experts,
        tokens=instance.demand.batch_tokens,
        slots=instance.slots,
        **asdict(bounds),
        best_ns=best_ns,
        best_by=plan.info.method,
        sha256=write_instance(root / path, replace(file, bounds=bounds)),
        plan_sha256=write_plan(root / plan_path, plan, instance),
    )


def build_horizon_entry(name: str, file: HorizonFile, root: Path, fresh: bool) -> LibraryEntry:
    """Plan a horizon, write both files and return the line of the index."""
    horizon = file.horizon
    plan, best_ns, bounds = best_horizon_plan(horizon, None if fresh else stored_horizon_plan(horizon))
    path, plan_path = (f"{name}/{horizon.name}{ending}" for ending in (".json.gz", ".plan.json.gz"))
    return LibraryEntry(
        name=horizon.name,
        set=name,
        path=path,
        layers=horizon.layers,
        experts=horizon.experts,
        tokens=max(demand.batch_tokens for demand in horizon.demands),
        slots=horizon.slots,
        **asdict(bounds),
        best_ns=best_ns,
        best_by=plan.method,
        sha256=write_horizon(root / path, replace(file, bounds=bounds)),
        plan_sha256=write_horizon_plan(root / plan_path, plan, horizon),
        steps=horizon.steps,
    )


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
