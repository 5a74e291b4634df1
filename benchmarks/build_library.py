"""Rebuild the instance library: generate, solve, and write instances, best plans and the index.

    python -m benchmarks.build_library            # everything
    python -m benchmarks.build_library --set synthetic
    python -m benchmarks.build_library --record   # first record the tiny model's routing again

A stored plan stays until a better one is found; bounds are proved anew. From the same library the same
sources give the same files: methods run with one worker, a seed and no limit of wall time, and the time a
plan took is left out.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from prescope.formulation import Instance, Plan, makespan_ns
from prescope.instances import (
    Bounds,
    InstanceFile,
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
from prescope.instances.library_sets import TRACE, synthetic_set, tiny_real_set, tiny_trace
from prescope.solver import Limits, lower_bound, solve

METHODS = ("dp", "presched", "intra-layer", "on-demand", "cpu-only")
SEED = 0
# CP-SAT proves nothing on large instances (docs/formulation.md), so it is not asked there.
EXACT_UP_TO_EXPERTS = 130
EXACT_LIMITS = Limits(deterministic_time=20.0, workers=1)

SETS: dict[str, Callable[[], Iterator[InstanceFile]]] = {
    "tiny-real": lambda: tiny_real_set(tiny_trace()),
    "synthetic": synthetic_set,
}


def best_plan(instance: Instance, stored: Plan | None) -> tuple[Plan, int, Bounds]:
    """Return the best plan of all methods and the stored one, its makespan and what is proved."""
    names = [name for name in METHODS if instance.host_computes or name != "cpu-only"]
    results = [solve(instance, method=name, seed=SEED) for name in names]
    # The stored plan first: of equally good ones it stays.
    found = [] if stored is None else [(makespan_ns(instance, stored), stored)]
    found += [(r.makespan_ns, r.plan) for r in results if r.makespan_ns is not None and r.plan is not None]
    best_ns, best = min(found, key=lambda pair: pair[0])
    bound_ns = max(lower_bound(instance, upper_ns=best_ns), *(r.lower_bound_ns for r in results))
    bound_by = "prescope.solver.lower_bound"
    active = int((instance.demand.counts > 0).sum())
    if best_ns != bound_ns and active <= EXACT_UP_TO_EXPERTS:
        exact = solve(instance, method="cp-sat", seed=SEED, limits=EXACT_LIMITS, hint=best)
        if exact.lower_bound_ns > bound_ns:
            bound_ns, bound_by = exact.lower_bound_ns, "cp-sat"
        if exact.makespan_ns is not None and exact.plan is not None and exact.makespan_ns < best_ns:
            best_ns, best = exact.makespan_ns, exact.plan
    proved = best_ns == bound_ns
    bounds = Bounds(
        optimum_ns=bound_ns if proved else None,
        optimum_by=f"{best.info.method} reaches the bound of {bound_by}" if proved else None,
        lower_bound_ns=bound_ns,
        lower_bound_by=bound_by,
    )
    return replace(best, info=replace(best.info, time_ns=None, lower_bound_ns=bound_ns)), best_ns, bounds


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
        plan, best_ns, bounds = best_plan(file.instance, None if fresh else stored_plan(file.instance))
        solved = replace(file, bounds=bounds)
        path = f"{name}/{file.instance.name}.json.gz"
        entry = LibraryEntry(
            name=file.instance.name,
            set=name,
            path=path,
            layers=file.instance.layers,
            experts=file.instance.experts,
            tokens=file.instance.demand.batch_tokens,
            optimum_ns=bounds.optimum_ns,
            lower_bound_ns=bounds.lower_bound_ns,
            best_ns=best_ns,
            best_by=plan.info.method,
            sha256=write_instance(folder.parent / path, solved),
        )
        write_plan(folder.parent / entry.plan_path, plan, file.instance)
        entries.append(entry)
        gap = 100 * (best_ns / (bounds.lower_bound_ns or best_ns) - 1)
        print(f"{entry.name:50} {best_ns / 1e6:10.3f} ms  gap {gap:.4f} %  {entry.best_by}", flush=True)
    return entries


def install(built: Path, root: Path, names: list[str]) -> None:
    """Put the sets' new files in place of the old ones; other files of a set (README, trace) stay."""
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
    parser.add_argument("--set", choices=sorted(SETS), action="append", help="only this one (repeatable)")
    parser.add_argument("--record", action="store_true", help="record the tiny model's routing first")
    parser.add_argument("--fresh", action="store_true", help="forget the stored plans, however good")
    arguments = parser.parse_args()
    root, names = library_root(), arguments.set or list(SETS)
    if arguments.record:
        from benchmarks.record_tiny_routing import record_tiny_routing

        write_trace(root / "tiny-real" / TRACE, record_tiny_routing())
    listed = list_library() if (root / INDEX).exists() else []
    kept = [entry for entry in listed if entry.set not in names]
    with tempfile.TemporaryDirectory() as scratch:
        entries = [
            entry for name in names for entry in build_set(name, Path(scratch) / name, fresh=arguments.fresh)
        ]
        install(Path(scratch), root, names)
    write_index(root, sorted([*kept, *entries], key=lambda entry: (entry.set, entry.name)))
    faults = verify_library()
    for fault in faults:
        print(f"{fault.name}: {fault.problem}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
