"""The layout of the horizon files, version 1. Changing anything here is a new version."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from prescope.instances._schema import DemandRecord, Digest, InstanceRecord, ProvenanceRecord

HORIZON_FORMAT: Literal["prescope-horizon"] = "prescope-horizon"

_MAX_STEPS = 100_000


class HorizonDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A horizon file; ``sha256`` is that of the same document without it.

    ``instance`` is the first step, ``later`` the demand of the others.
    """

    format: Literal["prescope-horizon"]
    version: Literal[1]
    sha256: Digest
    instance: InstanceRecord
    later: Annotated[list[DemandRecord], Meta(max_length=_MAX_STEPS)]
    provenance: ProvenanceRecord
