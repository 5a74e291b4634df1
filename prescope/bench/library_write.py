"""Replace one best-known plan of a library: plan, bounds and index."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prescope.bench.problems import AnyPlan, store_plan
from prescope.formulation import Plan
from prescope.instances import (
    Bounds,
    HorizonFile,
    InstanceFile,
    LibraryEntry,
    list_library,
    write_horizon,
    write_index,
    write_instance,
)


def replace_best(
    entry: LibraryEntry, file: InstanceFile | HorizonFile, plan: AnyPlan, cost_ns: int, root: Path
) -> LibraryEntry:
    """Store a better plan and return the new line of the index.

    Every file is written whole or not at all, the index last: `prescope.instances.verify_library` names the
    instance if the machine stops in between.

    Parameters
    ----------
    entry, file
        The line of the index and the file of the instance or horizon as they are.
    plan, cost_ns
        The plan and its makespan by the exact evaluator.
    root
        Folder of the library.
    """
    if isinstance(plan, Plan):
        # Without its time: the library's content does not depend on the machine.
        info = replace(plan.info, makespan_ns=cost_ns, lower_bound_ns=entry.lower_bound_ns, time_ns=None)
        plan, method = replace(plan, info=info), info.method
    else:
        steps = (replace(step, info=replace(step.info, time_ns=None)) for step in plan.plans)
        plan, method = replace(plan, plans=tuple(steps)), plan.method
    problem = file.horizon if isinstance(file, HorizonFile) else file.instance
    plan_sha256 = store_plan(root / entry.plan_path, plan, problem)
    changed = replace(entry, best_ns=cost_ns, best_by=method, plan_sha256=plan_sha256)
    if cost_ns == entry.lower_bound_ns and entry.optimum_ns is None:
        by = f"{method} reaches the bound of {entry.lower_bound_by}"
        bounds = Bounds(
            optimum_ns=cost_ns,
            optimum_by=by,
            lower_bound_ns=entry.lower_bound_ns,
            lower_bound_by=entry.lower_bound_by,
        )
        if isinstance(file, HorizonFile):
            sha256 = write_horizon(root / entry.path, replace(file, bounds=bounds))
        else:
            sha256 = write_instance(root / entry.path, replace(file, bounds=bounds))
        changed = replace(changed, optimum_ns=cost_ns, optimum_by=by, sha256=sha256)
    write_index(root, [changed if one.name == entry.name else one for one in list_library(root)])
    return changed
