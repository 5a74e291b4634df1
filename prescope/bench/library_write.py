"""Replace one best-known plan of a library: plan, bounds and index."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prescope.formulation import Plan
from prescope.instances import (
    Bounds,
    InstanceFile,
    LibraryEntry,
    list_library,
    write_index,
    write_instance,
    write_plan,
)


def replace_best(
    entry: LibraryEntry, file: InstanceFile, plan: Plan, cost_ns: int, root: Path
) -> LibraryEntry:
    """Store a better plan and return the new line of the index.

    Every file is written whole or not at all, the index last: `prescope.instances.verify_library` names the
    instance if the machine stops in between.

    Parameters
    ----------
    entry, file
        The line of the index and the instance file as they are.
    plan, cost_ns
        The plan and its makespan by the exact evaluator.
    root
        Folder of the library.
    """
    # Without its time: the library's content does not depend on the machine.
    info = replace(plan.info, makespan_ns=cost_ns, lower_bound_ns=entry.lower_bound_ns, time_ns=None)
    plan_sha256 = write_plan(root / entry.plan_path, replace(plan, info=info), file.instance)
    changed = replace(entry, best_ns=cost_ns, best_by=info.method, plan_sha256=plan_sha256)
    if cost_ns == entry.lower_bound_ns and entry.optimum_ns is None:
        by = f"{info.method} reaches the bound of {entry.lower_bound_by}"
        bounds = Bounds(
            optimum_ns=cost_ns,
            optimum_by=by,
            lower_bound_ns=entry.lower_bound_ns,
            lower_bound_by=entry.lower_bound_by,
        )
        sha256 = write_instance(root / entry.path, replace(file, bounds=bounds))
        changed = replace(changed, optimum_ns=cost_ns, optimum_by=by, sha256=sha256)
    write_index(root, [changed if one.name == entry.name else one for one in list_library(root)])
    return changed
