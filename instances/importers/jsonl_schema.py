"""The lines of a JSON log, version 1. Changing anything here is a new version."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from prescope.instances.importers.log_header import LogHeader
from prescope.instances.limits import MAX_BYTES, MAX_EXPERTS, MAX_LAYERS, MAX_NAME, MAX_NOTE
from prescope.instances.routing_trace import TraceMeta

LOG_FORMAT: Literal["prescope-routing-log"] = "prescope-routing-log"
VERSION: Literal[1] = 1

Name = Annotated[str, Meta(max_length=MAX_NAME)]
Note = Annotated[str, Meta(max_length=MAX_NOTE)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Sizes = Annotated[list[Annotated[int, Meta(ge=0, le=MAX_BYTES)]], Meta(min_length=1, max_length=MAX_LAYERS)]


class HeaderLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The first line."""

    format: Literal["prescope-routing-log"]
    version: Literal[1]
    model: Name
    experts: Annotated[int, Meta(ge=1, le=MAX_EXPERTS)]
    top_k: Annotated[int, Meta(ge=1, le=MAX_EXPERTS)]
    layers: Annotated[int, Meta(ge=1, le=MAX_LAYERS)]
    fingerprint: Name = ""
    tokenizer: Name = ""
    source: Note = ""
    notes: Note = ""
    weights: Literal["float16", "float32"] = "float32"
    expert_bytes: Sizes | None = None
    dense_bytes: Sizes | None = None
    records: Annotated[int, Meta(ge=0, le=2**62)] | None = None


class RecordLine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One layer of one forward pass."""

    forward: Number
    layer: Number
    ids: list[list[int]]
    phase: Literal["prefill", "decode"] | list[Literal[0, 1]] | UnsetType = UNSET
    sequences: Number | list[Number] | UnsetType = UNSET
    tokens: list[Annotated[int, Meta(ge=-1, le=2**31 - 1)]] | UnsetType = UNSET
    padding: list[Literal[0, 1]] | UnsetType = UNSET
    rows: list[Number] | UnsetType = UNSET
    weights: list[list[float]] | UnsetType = UNSET


_HEADER = msgspec.json.Decoder(HeaderLine)
_RECORD = msgspec.json.Decoder(RecordLine)


def header_line(line: bytes) -> LogHeader:
    """Understand the first line.

    Raises
    ------
    ValueError
        When it is not JSON, against the schema, or has a field twice.
    """
    try:
        # The fast reader keeps the last of two equal fields.
        json.loads(line, object_pairs_hook=_unique)
        found = _HEADER.decode(line)
    except RecursionError as error:
        raise ValueError("expected an object, got too many levels of nesting") from error
    meta = {name: getattr(found, name) for name in TraceMeta.__dataclass_fields__}
    return LogHeader(
        meta=TraceMeta(**meta),
        layers=found.layers,
        weights=found.weights,
        expert_bytes=None if found.expert_bytes is None else tuple(found.expert_bytes),
        dense_bytes=None if found.dense_bytes is None else tuple(found.dense_bytes),
        size=found.records,
    )


def record_line(line: bytes) -> RecordLine:
    """Understand another line; raises like `header_line`."""
    record = _RECORD.decode(line)
    given = sum(getattr(record, name) is not UNSET for name in RecordLine.__struct_fields__)
    # Every quotation mark belongs to a field's name or to the phase: more of them are a field said twice.
    if line.count(b'"') != 2 * (given + isinstance(record.phase, str)):
        raise ValueError("expected each field once, got one of them again")
    return record


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("expected each field once, got one of them again")
    return found
