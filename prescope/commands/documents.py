"""Plans, schedules and instances as plain objects for ``--json`` (docs/json.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prescope.formulation import Plan, Schedule
    from prescope.instances import InstanceFile


def plan_document(plan: Plan) -> dict[str, Any]:
    """A plan, laid out as in a plan file."""
    return {
        "layers": [{"gpu": list(layer.gpu), "cpu": list(layer.cpu)} for layer in plan.layers],
        "transfers": [[copy.layer, copy.expert, copy.slot, copy.gate] for copy in plan.transfers],
        "info": {**asdict(plan.info), "parameters": [list(pair) for pair in plan.info.parameters]},
    }


def schedule_document(name: str, schedule: Schedule) -> dict[str, Any]:
    """A schedule: how busy each lane is, where every layer's weights come from, and all tasks."""
    from prescope.report import Origin, layer_summaries, mark, shares

    busy = shares(schedule, 0, schedule.makespan_ns)
    return {
        "name": name,
        "makespan_ns": schedule.makespan_ns,
        "busy": {lane.value: share for lane, share in busy.items()},
        "layers": [
            {
                "layer": summary.layer,
                "start_ns": summary.start_ns,
                "end_ns": summary.end_ns,
                **{
                    _field(origin): summary.counts.get(origin, 0)
                    for origin in Origin
                    if origin not in (Origin.DENSE, Origin.PREDICTION)
                },
            }
            for summary in layer_summaries(schedule)
        ],
        "tasks": [
            {
                "kind": entry.task.kind.value,
                "lane": entry.task.lane.value,
                "layer": entry.task.layer,
                "expert": entry.task.expert,
                "slot": entry.task.slot,
                "start_ns": entry.task.start_ns,
                "end_ns": entry.task.end_ns,
                "origin": entry.origin.value,
            }
            for entry in mark(schedule)
        ],
    }


def instance_document(file: InstanceFile) -> dict[str, Any]:
    """What an instance is, without its token counts."""
    instance = file.instance
    counts = instance.demand.counts
    return {
        "name": instance.name,
        "layers": instance.layers,
        "experts": instance.experts,
        "tokens": instance.demand.batch_tokens,
        "activated": int((counts > 0).sum()),
        "residents": sum(len(row) for row in instance.residents),
        "slots": instance.slots,
        "lookahead": instance.lookahead,
        "tier": instance.tier.value,
        "host_computes": instance.host_computes,
        "expert_bytes": list(instance.costs.expert_bytes),
        "link_bytes_per_s": instance.costs.link.bytes_per_s,
        "costs_source": instance.costs.source,
        "predicted_by": None if instance.predicted is None else instance.predicted.source,
        "bounds": asdict(file.bounds),
        "provenance": asdict(file.provenance),
        "sha256": file.sha256,
    }


def _field(origin: Any) -> str:
    return str(origin.value).replace(" ", "_")
