"""Horizon plan files: ``.json`` and ``.json.gz``, the plans and residents of several steps."""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec

from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.instances import _horizon_schema as schema
from prescope.instances._convert import at_field
from prescope.instances._json_file import digest, read_json, write_json
from prescope.instances._plan_convert import plan_from_record, plan_record
from prescope.instances._schema import VERSION
from prescope.instances.horizon_file import horizon_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonPlanFile:
    """A horizon plan and the horizon it is for.

    Parameters
    ----------
    plan
        Plans and residents of every step.
    horizon_name
        Name of the horizon.
    horizon_sha256
        Its `horizon_digest`.
    """

    plan: HorizonPlan
    horizon_name: str
    horizon_sha256: str

    @property
    def sha256(self) -> str:
        """Checksum of everything here, as the file stores it."""
        return _express(self).sha256

    def require_horizon(self, horizon: Horizon) -> None:
        """Refuse another horizon than the plan's.

        Raises
        ------
        ValueError
            Naming both horizons.
        """
        found = horizon_digest(horizon)
        if found != self.horizon_sha256:
            raise ValueError(
                f"expected horizon {self.horizon_name!r} with checksum {self.horizon_sha256}, "
                f"got {horizon.name!r} with {found}"
            )


def read_horizon_plan(path: str | os.PathLike[str]) -> HorizonPlanFile:
    """Read a horizon plan file; raises `InstanceFileError` like `read_horizon`.

    Whether the plan fits its horizon is `prescope.formulation.horizon_evaluator.evaluate_horizon`'s to say.
    """
    return read_json(path, schema.HorizonPlanDocument, _understand, _express)


def write_horizon_plan(path: str | os.PathLike[str], plan: HorizonPlan, horizon: Horizon) -> str:
    """Write a plan for a horizon atomically and return its checksum; raises like `write_horizon`."""
    file = HorizonPlanFile(plan=plan, horizon_name=horizon.name, horizon_sha256=horizon_digest(horizon))
    return write_json(path, schema.HorizonPlanDocument, file, _understand, _express)


def _express(file: HorizonPlanFile) -> schema.HorizonPlanDocument:
    plan = file.plan
    document = schema.HorizonPlanDocument(
        format=schema.HORIZON_PLAN_FORMAT,
        version=VERSION,
        sha256="",
        horizon_name=file.horizon_name,
        horizon_sha256=file.horizon_sha256,
        plan=schema.HorizonPlanRecord(
            method=plan.method,
            residents=[[list(row) for row in residents] for residents in plan.residents],
            plans=[plan_record(step) for step in plan.plans],
        ),
    )
    return msgspec.structs.replace(document, sha256=digest(document))


def _understand(document: schema.HorizonPlanDocument) -> HorizonPlanFile:
    record = document.plan
    for step, residents in enumerate(record.residents):
        for layer, row in enumerate(residents):
            if row != sorted(set(row)):
                with at_field(f"plan.residents[{step}]"):
                    raise ValueError(f"expected ascending distinct experts, got others in layer {layer}")
    plans = []
    for step, planned in enumerate(record.plans):
        with at_field(f"plan.plans[{step}]"):
            plans.append(plan_from_record(planned))
    with at_field("plan"):
        plan = HorizonPlan(
            plans=tuple(plans),
            residents=tuple(tuple(tuple(row) for row in residents) for residents in record.residents),
            method=record.method,
        )
    return HorizonPlanFile(
        plan=plan, horizon_name=document.horizon_name, horizon_sha256=document.horizon_sha256
    )
