"""Between plans and their records in the files, both ways."""

from __future__ import annotations

import msgspec

from prescope.formulation import LayerPlan, Plan, PlanInfo, Transfer
from prescope.instances import _schema as schema


def plan_record(plan: Plan) -> schema.PlanRecord:
    """The record of a plan."""
    info = plan.info
    return schema.PlanRecord(
        layers=[schema.LayerRecord(gpu=list(layer.gpu), cpu=list(layer.cpu)) for layer in plan.layers],
        transfers=[
            schema.TransferRecord(copy.layer, copy.expert, copy.slot, copy.gate) for copy in plan.transfers
        ],
        info=schema.PlanInfoRecord(
            method=info.method,
            parameters=list(info.parameters),
            seed=info.seed,
            makespan_ns=info.makespan_ns,
            lower_bound_ns=info.lower_bound_ns,
            time_ns=info.time_ns,
        ),
    )


def plan_from_record(record: schema.PlanRecord) -> Plan:
    """The plan of a record; ``ValueError`` where a copy's gate lies behind its layer."""
    info = msgspec.structs.asdict(record.info)
    return Plan(
        layers=tuple(LayerPlan(gpu=tuple(layer.gpu), cpu=tuple(layer.cpu)) for layer in record.layers),
        transfers=tuple(
            Transfer(layer=copy.layer, expert=copy.expert, slot=copy.slot, gate=copy.gate)
            for copy in record.transfers
        ),
        info=PlanInfo(**{**info, "parameters": tuple(record.info.parameters)}),
    )
