"""The layouts of the horizon files, version 1. Changing anything here is a new version."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from prescope.instances._schema import (
    BoundsRecord,
    DemandRecord,
    Digest,
    Index,
    InstanceRecord,
    Name,
    Note,
    PlanRecord,
    PredictedRecord,
    ProvenanceRecord,
)
from prescope.instances.limits import MAX_LAYERS

HORIZON_FORMAT: Literal["prescope-horizon"] = "prescope-horizon"
HORIZON_PLAN_FORMAT: Literal["prescope-horizon-plan"] = "prescope-horizon-plan"

_MAX_STEPS = 100_000

_Residents = Annotated[list[list[Index]], Meta(min_length=1, max_length=MAX_LAYERS)]


class HorizonDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A horizon file; ``sha256`` is that of the same document without it.

    ``instance`` is the first step, ``later`` the demand of the others. ``predicted`` has an entry per step,
    the first included, or none; ``history`` holds sequences of earlier steps.
    """

    format: Literal["prescope-horizon"]
    version: Literal[1]
    sha256: Digest
    instance: InstanceRecord
    later: Annotated[list[DemandRecord], Meta(max_length=_MAX_STEPS)]
    predicted: Annotated[list[PredictedRecord], Meta(max_length=_MAX_STEPS)]
    history: Annotated[
        list[Annotated[list[DemandRecord], Meta(max_length=_MAX_STEPS)]], Meta(max_length=_MAX_STEPS)
    ]
    provenance: ProvenanceRecord
    bounds: BoundsRecord


class HorizonPlanRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.HorizonPlan`."""

    method: Note
    residents: Annotated[list[_Residents], Meta(min_length=1, max_length=_MAX_STEPS)]
    plans: Annotated[list[PlanRecord], Meta(min_length=1, max_length=_MAX_STEPS)]


class HorizonPlanDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A horizon plan file; ``horizon_sha256`` is `prescope.instances.horizon_digest` of its horizon."""

    format: Literal["prescope-horizon-plan"]
    version: Literal[1]
    sha256: Digest
    horizon_name: Name
    horizon_sha256: Digest
    plan: HorizonPlanRecord
