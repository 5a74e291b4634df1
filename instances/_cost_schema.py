"""The layout of the cost files, version 1. Changing anything here is a new version."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from prescope.instances._schema import CostsRecord, Digest, Duration, Name, Note, Seed, Size
from prescope.instances.cost_series import SeriesKind
from prescope.instances.limits import MAX_EXPERTS, MAX_LAYERS, MAX_TOKENS

COSTS_FORMAT: Literal["prescope-costs"] = "prescope-costs"

Count = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
Layers = Annotated[int, Meta(ge=1, le=MAX_LAYERS)]
Shape = Annotated[list[Count], Meta(min_length=2, max_length=2)]


class FingerprintRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.instances.ModelFingerprint`."""

    family: Name
    layers: Layers
    decoder_layers: Count
    experts: Annotated[int, Meta(ge=1, le=MAX_EXPERTS)]
    top_k: Count
    gate_up_shape: Shape
    down_shape: Shape
    dense_parameters: Annotated[int, Meta(ge=0, le=2**50)]
    dtype: Name


class MachineRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.instances.MachineDescription`."""

    system: Name
    architecture: Name
    cores: Count
    memory_bytes: Size
    python: Name
    torch: Name
    transformers: Name | None


class CostProvenanceRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.instances.CostProvenance`."""

    measured_on: Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    created_by: Annotated[str, Meta(min_length=1, max_length=200)]
    machine: MachineRecord
    threads: Count
    depth: Count | None
    context: Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
    direct: bool | None
    quick: bool
    seed: Seed
    notes: Note


class PointRecord(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`prescope.instances.MeasuredPoint` as ``[x, median_ns, low_ns, high_ns, repeats]``."""

    x: Size
    median_ns: Duration
    low_ns: Duration
    high_ns: Duration
    repeats: Count


class SeriesRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.instances.MeasuredSeries`."""

    kind: SeriesKind
    label: Name
    workers: Count
    layer: Annotated[int, Meta(ge=0, le=MAX_LAYERS)] | None
    points: Annotated[list[PointRecord], Meta(min_length=1, max_length=4096)]


class CostDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cost file; ``sha256`` is that of the same document without it."""

    format: Literal["prescope-costs"]
    version: Literal[1]
    sha256: Digest
    costs: CostsRecord
    tier: Literal["ram", "disk"]
    host_computes: bool
    fingerprint: FingerprintRecord
    provenance: CostProvenanceRecord
    series: Annotated[list[SeriesRecord], Meta(max_length=8 * MAX_LAYERS)]
