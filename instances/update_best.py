"""A better plan takes the place of the best known one."""

from __future__ import annotations

import os
from dataclasses import replace

from prescope.formulation import Plan, makespan_ns
from prescope.instances.instance_file import write_instance
from prescope.instances.library import load_entry
from prescope.instances.library_index import LibraryEntry, library_root, list_library, write_index
from prescope.instances.plan_file import write_plan


def update_best(name: str, plan: Plan, root: str | os.PathLike[str] | None = None) -> LibraryEntry:
    """Store a plan as the best known one: plan, bounds in the instance file, and index.

    Parameters
    ----------
    name
        Of the instance.
    plan
        Shorter than the stored one by the exact evaluator; its own claims are replaced, its method is kept.
    root
        Folder of the library; by default the package's own.

    Returns
    -------
    LibraryEntry
        The new line of the index.

    Raises
    ------
    ValueError
        When no instance has that name, or the plan is infeasible, not shorter than the stored one, or
        shorter than the proved lower bound (which then is not valid).
    OSError
        When the library cannot be written to.
    """
    folder = library_root() if root is None else root
    entries = list_library(folder)
    entry = next((entry for entry in entries if entry.name == name), None)
    if entry is None:
        raise ValueError(f"expected the name of a library instance, got {name!r}")
    file = load_entry(entry, folder)
    cost_ns = makespan_ns(file.instance, plan)
    if entry.best_ns is not None and cost_ns >= entry.best_ns:
        raise ValueError(f"expected a plan of {name} shorter than {entry.best_ns} ns, got {cost_ns} ns")
    bounds = file.bounds
    if bounds.lower_bound_ns is not None and cost_ns < bounds.lower_bound_ns:
        raise ValueError(
            f"expected at least the lower bound of {bounds.lower_bound_ns} ns by {bounds.lower_bound_by} "
            f"for {name}, got a plan of {cost_ns} ns: the bound is not valid"
        )
    method = plan.info.method
    if cost_ns == bounds.lower_bound_ns:
        by = f"{method} reaches the bound of {bounds.lower_bound_by}"
        bounds = replace(bounds, optimum_ns=cost_ns, optimum_by=by)
    info = replace(plan.info, makespan_ns=cost_ns, lower_bound_ns=bounds.lower_bound_ns, time_ns=None)
    # The index last: until it is written, verification says what is unfinished.
    plan_sha256 = write_plan(os.path.join(folder, entry.plan_path), replace(plan, info=info), file.instance)
    sha256 = write_instance(os.path.join(folder, entry.path), replace(file, bounds=bounds))
    updated = replace(
        entry,
        optimum_ns=bounds.optimum_ns,
        optimum_by=bounds.optimum_by,
        best_ns=cost_ns,
        best_by=method,
        sha256=sha256,
        plan_sha256=plan_sha256,
    )
    write_index(folder, [updated if other is entry else other for other in entries])
    return updated
