"""Horizon files: ``.json`` and ``.json.gz``, several steps in a row."""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec

from prescope.formulation.horizon import Horizon
from prescope.instances import _horizon_schema as schema
from prescope.instances._convert import at_field, instance_from_record, instance_record
from prescope.instances._json_file import digest, read_json, write_json
from prescope.instances._schema import VERSION, DemandRecord, ProvenanceRecord
from prescope.instances.provenance import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonFile:
    """A horizon with where it comes from."""

    horizon: Horizon
    provenance: Provenance

    @property
    def sha256(self) -> str:
        """Checksum of everything here, as the file stores it."""
        return _express(self).sha256


def read_horizon(path: str | os.PathLike[str]) -> HorizonFile:
    """Read a horizon file.

    Raises
    ------
    InstanceFileError
        When it is missing, truncated, altered, from a newer version, too large or against the schema; the
        message names the file, the field and the remedy.
    """
    return read_json(path, schema.HorizonDocument, _understand, _express)


def write_horizon(path: str | os.PathLike[str], file: HorizonFile) -> str:
    """Write a horizon file atomically (``.json``, or ``.json.gz`` compressed) and return its checksum.

    Raises
    ------
    InstanceFileError
        When the name has another ending or the content is beyond the limits of the format.
    OSError
        When the folder cannot be written to.
    """
    return write_json(path, schema.HorizonDocument, file, _understand, _express)


def _express(file: HorizonFile) -> schema.HorizonDocument:
    horizon = file.horizon
    first = msgspec.structs.replace(
        instance_record(horizon.instance(0, horizon.residents)), name=horizon.name
    )
    document = schema.HorizonDocument(
        format=schema.HORIZON_FORMAT,
        version=VERSION,
        sha256="",
        instance=first,
        later=[
            DemandRecord(batch_tokens=demand.batch_tokens, counts=demand.counts.tolist())
            for demand in horizon.demands[1:]
        ],
        provenance=ProvenanceRecord(
            source=file.provenance.source,
            generator=file.provenance.generator,
            seed=file.provenance.seed,
            created_by=file.provenance.created_by,
            notes=file.provenance.notes,
        ),
    )
    return msgspec.structs.replace(document, sha256=digest(document))


def _understand(document: schema.HorizonDocument) -> HorizonFile:
    first = instance_from_record(document.instance)
    demands = [first.demand]
    for number, record in enumerate(document.later):
        with at_field(f"later[{number}]"):
            # Each step is checked as an instance of its own.
            step = instance_from_record(msgspec.structs.replace(document.instance, demand=record))
            if step.layers != first.layers:
                raise ValueError(f"expected {first.layers} layers, got {step.layers}")
            demands.append(step.demand)
    with at_field("instance"):
        if first.predicted is not None or first.link_ready_ns or first.prediction_ns:
            raise ValueError("expected no predictions and an idle link at the start of a horizon")
        horizon = Horizon(
            name=first.name,
            costs=first.costs,
            demands=tuple(demands),
            residents=first.residents,
            slots=first.slots,
            lookahead=first.lookahead,
            tier=first.tier,
            host_computes=first.host_computes,
        )
    with at_field("provenance"):
        if not document.provenance.created_by:
            raise ValueError("expected who created the file in created_by, got an empty text")
        provenance = Provenance(**msgspec.structs.asdict(document.provenance))
    return HorizonFile(horizon=horizon, provenance=provenance)
