"""Horizon files: ``.json`` and ``.json.gz``, several steps in a row."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from prescope.formulation import Demand
from prescope.formulation.horizon import Horizon
from prescope.instances import _horizon_schema as schema
from prescope.instances._convert import (
    at_field,
    instance_from_record,
    instance_record,
    predicted_from_record,
    predicted_record,
)
from prescope.instances._json_file import digest, read_json, write_json
from prescope.instances._schema import VERSION, BoundsRecord, DemandRecord, ProvenanceRecord
from prescope.instances.provenance import Bounds, Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonFile:
    """A horizon with what is known about it.

    Parameters
    ----------
    horizon
        The problem.
    provenance
        Where it comes from.
    bounds
        What is proved about the total time of its steps.
    """

    horizon: Horizon
    provenance: Provenance
    bounds: Bounds = field(default_factory=Bounds)

    @property
    def sha256(self) -> str:
        """Checksum of everything here, as the file stores it."""
        return _express(self).sha256


def horizon_digest(horizon: Horizon) -> str:
    """SHA-256 of the problem alone: what a plan refers to, unchanged by better bounds or notes."""
    return hashlib.sha256(msgspec.json.encode(list(_fields(horizon).values()))).hexdigest()


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


def _fields(horizon: Horizon) -> dict[str, Any]:
    """The fields of the document that are the problem."""
    first = instance_record(horizon.instance(0, horizon.residents))
    return {
        "instance": msgspec.structs.replace(first, name=horizon.name, predicted=None),
        "later": [_demand_record(demand) for demand in horizon.demands[1:]],
        "predicted": [predicted_record(predicted) for predicted in horizon.predicted],
        "history": [[_demand_record(demand) for demand in sequence] for sequence in horizon.history],
    }


def _demand_record(demand: Demand) -> DemandRecord:
    return DemandRecord(batch_tokens=demand.batch_tokens, counts=demand.counts.tolist())


def _express(file: HorizonFile) -> schema.HorizonDocument:
    provenance, bounds = file.provenance, file.bounds
    document = schema.HorizonDocument(
        format=schema.HORIZON_FORMAT,
        version=VERSION,
        sha256="",
        **_fields(file.horizon),
        provenance=ProvenanceRecord(
            source=provenance.source,
            generator=provenance.generator,
            seed=provenance.seed,
            created_by=provenance.created_by,
            notes=provenance.notes,
        ),
        bounds=BoundsRecord(
            optimum_ns=bounds.optimum_ns,
            optimum_by=bounds.optimum_by,
            lower_bound_ns=bounds.lower_bound_ns,
            lower_bound_by=bounds.lower_bound_by,
        ),
    )
    return msgspec.structs.replace(document, sha256=digest(document))


def _understand(document: schema.HorizonDocument) -> HorizonFile:
    first = instance_from_record(document.instance)
    demands, predicted, history = [first.demand], [], []
    for number, later in enumerate(document.later):
        with at_field(f"later[{number}]"):
            # Each step is checked as an instance of its own: its times must fit 64 bits.
            step = instance_from_record(msgspec.structs.replace(document.instance, demand=later))
            if step.layers != first.layers:
                raise ValueError(f"expected {first.layers} layers, got {step.layers}")
            demands.append(step.demand)
    for number, said in enumerate(document.predicted):
        with at_field(f"predicted[{number}]"):
            predicted.append(predicted_from_record(said, first.layers, first.experts))
    for number, sequence in enumerate(document.history):
        with at_field(f"history[{number}]"):
            history.append(tuple(_demand(one, first.layers, first.experts) for one in sequence))
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
            predicted=tuple(predicted),
            history=tuple(history),
        )
    with at_field("provenance"):
        if not document.provenance.created_by:
            raise ValueError("expected who created the file in created_by, got an empty text")
        provenance = Provenance(**msgspec.structs.asdict(document.provenance))
    with at_field("bounds"):
        bounds = Bounds(**msgspec.structs.asdict(document.bounds))
    return HorizonFile(horizon=horizon, provenance=provenance, bounds=bounds)


def _demand(record: DemandRecord, layers: int, experts: int) -> Demand:
    if len(record.counts) != layers or {len(row) for row in record.counts} != {experts}:
        raise ValueError(f"expected {layers} layers of {experts} experts, got others")
    return Demand(counts=np.array(record.counts, dtype=np.int64), batch_tokens=record.batch_tokens)
