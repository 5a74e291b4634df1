"""The layout of the JSON files. Changing anything here is a new version of its kind of file."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from prescope.instances.limits import (
    MAX_BYTES,
    MAX_EXPERTS,
    MAX_HORIZONS,
    MAX_LAYERS,
    MAX_NAME,
    MAX_NOTE,
    MAX_NS,
    MAX_TOKENS,
    MAX_TOTAL_NS,
)

INSTANCE_FORMAT: Literal["prescope-instance"] = "prescope-instance"
PLAN_FORMAT: Literal["prescope-plan"] = "prescope-plan"
LIBRARY_FORMAT: Literal["prescope-library"] = "prescope-library"
VERSION: Literal[1] = 1
LIBRARY_VERSION: Literal[2] = 2

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Note = Annotated[str, Meta(max_length=MAX_NOTE)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Tokens = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
Duration = Annotated[int, Meta(ge=0, le=MAX_NS)]
Total = Annotated[int, Meta(ge=0, le=MAX_TOTAL_NS)]
Size = Annotated[int, Meta(ge=1, le=MAX_BYTES)]
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Index = Annotated[int, Meta(ge=0, le=2**31)]
NonNegative = Annotated[float, Meta(ge=0.0, le=1e15)]
Probability = Annotated[float, Meta(ge=0.0, le=1.0)]


class LinearRecord(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="linear"
):
    """`prescope.formulation.LinearTime`."""

    fixed_ns: Duration
    per_token_ns: NonNegative


class TableRecord(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="table"
):
    """`prescope.formulation.TableTime`."""

    tokens: Annotated[list[Tokens], Meta(min_length=1, max_length=4096)]
    times_ns: Annotated[list[Duration], Meta(min_length=1, max_length=4096)]


Curves = Annotated[list[LinearRecord | TableRecord], Meta(min_length=1, max_length=MAX_LAYERS)]


class LinkRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.Link`."""

    bytes_per_s: Size
    latency_ns: Duration


class CostsRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.CostModel`."""

    source: Note
    expert_bytes: Annotated[list[Size], Meta(min_length=1, max_length=MAX_LAYERS)]
    link: LinkRecord
    gpu: Curves
    cpu: Curves
    dense: Curves


class DemandRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.Demand`."""

    batch_tokens: Tokens
    counts: Annotated[
        list[Annotated[list[Tokens], Meta(min_length=1, max_length=MAX_EXPERTS)]],
        Meta(min_length=1, max_length=MAX_LAYERS),
    ]


class PredictedRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.PredictedDemand`."""

    source: Note
    probabilities: Annotated[list[list[list[Probability]]], Meta(min_length=1, max_length=MAX_HORIZONS)]
    expected_tokens: Annotated[list[list[list[NonNegative]]], Meta(min_length=1, max_length=MAX_HORIZONS)]


class InstanceRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.Instance`."""

    name: Name
    costs: CostsRecord
    demand: DemandRecord
    residents: Annotated[list[list[Index]], Meta(min_length=1, max_length=MAX_LAYERS)]
    slots: Index
    lookahead: Index
    tier: Literal["ram", "disk"]
    host_computes: bool
    link_ready_ns: Duration
    predicted: PredictedRecord | None
    # Absent where predictions cost nothing, so that files written before it existed keep their checksums.
    prediction_ns: Annotated[list[Duration], Meta(min_length=1, max_length=MAX_LAYERS)] | UnsetType = UNSET


class ProvenanceRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.instances.Provenance`."""

    source: Note
    generator: Note
    seed: Seed | None
    created_by: Note
    notes: Note


class BoundsRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.instances.Bounds`."""

    optimum_ns: Total | None
    optimum_by: Note | None
    lower_bound_ns: Total | None
    lower_bound_by: Note | None


class InstanceDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An instance file; ``sha256`` is that of the same document without it."""

    format: Literal["prescope-instance"]
    version: Literal[1]
    sha256: Digest
    instance: InstanceRecord
    provenance: ProvenanceRecord
    bounds: BoundsRecord


class LayerRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.LayerPlan`."""

    gpu: list[Index]
    cpu: list[Index]


class TransferRecord(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`prescope.formulation.Transfer` as ``[layer, expert, slot, gate]``."""

    layer: Index
    expert: Index
    slot: Index | None
    gate: Annotated[int, Meta(ge=-1, le=MAX_LAYERS)] | None


class PlanInfoRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.PlanInfo`."""

    method: Note
    parameters: list[tuple[Note, Note]]
    seed: Seed | None
    makespan_ns: Total | None
    lower_bound_ns: Total | None
    time_ns: Total | None


class PlanRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.Plan`."""

    layers: Annotated[list[LayerRecord], Meta(min_length=1, max_length=MAX_LAYERS)]
    transfers: list[TransferRecord]
    info: PlanInfoRecord


class PlanDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan file; ``instance_sha256`` is `prescope.instances.instance_digest` of the instance it is for."""

    format: Literal["prescope-plan"]
    version: Literal[1]
    sha256: Digest
    instance_name: Name
    instance_sha256: Digest
    plan: PlanRecord


class EntryBounds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known about the smallest makespan; upper is that of the plan stored beside the instance."""

    lower_ns: Total | None
    lower_by: Note | None
    upper_ns: Total | None
    upper_by: Note | None


class EntryRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.instances.LibraryEntry`."""

    name: Name
    set: Name
    path: Name
    layers: Index
    experts: Index
    tokens: Tokens
    slots: Index
    optimum_ns: Total | None
    optimum_by: Note | None
    bounds: EntryBounds
    sha256: Digest
    plan_sha256: Digest | None
    # Only of horizons, so that an index written before there were any keeps its checksum.
    steps: Annotated[int, Meta(ge=1, le=2**31)] | UnsetType = UNSET


class LibraryDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The library's index."""

    format: Literal["prescope-library"]
    version: Literal[2]
    sha256: Digest
    entries: list[EntryRecord]
