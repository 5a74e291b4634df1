"""An instance in a library, with a plan and a bound."""

from dataclasses import replace
from pathlib import Path

from prescope.formulation import Instance, LayerPlan, Plan, PlanInfo, makespan_ns
from prescope.instances import (
    Bounds,
    InstanceFile,
    LibraryEntry,
    Provenance,
    synthetic_instance,
    write_instance,
    write_plan,
)

INSTANCE = synthetic_instance("mixtral-8x7b", "lab", 1, 0, name="one")
HOST = Plan(
    layers=tuple(LayerPlan(cpu=tuple(row.nonzero()[0].tolist())) for row in INSTANCE.demand.counts),
    info=PlanInfo(method="cpu-only"),
)
"""Everything on the host."""


def store_instance(
    root: Path, set_name: str, instance: Instance, plan: Plan, *, lower_bound_ns: int
) -> LibraryEntry:
    """Write the files of an instance and its plan; returns their entry for the index."""
    (root / set_name).mkdir(parents=True, exist_ok=True)
    best_ns = makespan_ns(instance, plan)
    known = replace(plan, info=replace(plan.info, makespan_ns=best_ns))
    bounds = Bounds(lower_bound_ns=lower_bound_ns, lower_bound_by="test")
    file = InstanceFile(instance=instance, provenance=Provenance(source="test"), bounds=bounds)
    path = f"{set_name}/{instance.name}.json.gz"
    return LibraryEntry(
        name=instance.name,
        set=set_name,
        path=path,
        layers=instance.layers,
        experts=instance.experts,
        tokens=instance.demand.batch_tokens,
        slots=instance.slots,
        optimum_ns=None,
        optimum_by=None,
        lower_bound_ns=lower_bound_ns,
        lower_bound_by="test",
        best_ns=best_ns,
        best_by=plan.info.method,
        sha256=write_instance(root / path, file),
        plan_sha256=write_plan(root / set_name / f"{instance.name}.plan.json.gz", known, instance),
    )
