"""Cost files: what `prescope profile` measured, as ``.json`` or ``.json.gz``."""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec

from prescope.formulation import CostModel, Tier
from prescope.instances import _cost_schema as schema
from prescope.instances._convert import at_field, costs_from_record, costs_record
from prescope.instances._json_file import digest, read_json, write_json
from prescope.instances._schema import VERSION
from prescope.instances.cost_provenance import CostProvenance, MachineDescription
from prescope.instances.cost_series import MeasuredPoint, MeasuredSeries
from prescope.instances.model_fingerprint import ModelFingerprint

COSTS_NAME = "prescope-costs.json"
"""File of measured costs that is picked up from the checkpoint's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFile:
    """A measured cost model with the model it belongs to and how it came about.

    Parameters
    ----------
    costs
        Durations of every operation.
    fingerprint
        The model they were measured for.
    provenance
        How, when and on what kind of machine.
    tier, host_computes
        Where weights rest, and whether the host runs experts in place.
    series
        The measurements the costs were made from; may be empty.
    """

    costs: CostModel
    fingerprint: ModelFingerprint
    provenance: CostProvenance
    tier: Tier
    host_computes: bool
    series: tuple[MeasuredSeries, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "series", tuple(self.series))
        if self.costs.layers != self.fingerprint.layers:
            raise ValueError(
                f"expected costs for the {self.fingerprint.layers} MoE layers of the model, "
                f"got {self.costs.layers}"
            )
        if self.host_computes and self.tier is Tier.DISK:
            raise ValueError("expected host_computes=False for weights on disk, got True")

    @property
    def name(self) -> str:
        """Where the costs come from, as their ``source`` says."""
        return self.costs.source

    @property
    def sha256(self) -> str:
        """Checksum of everything here, as the file stores it."""
        return _express(self).sha256

    def require_model(self, model: ModelFingerprint) -> None:
        """Refuse a model other than the one these costs were measured for.

        Raises
        ------
        ValueError
            Naming every difference and what to do.
        """
        differences = self.fingerprint.differences(model)
        if differences:
            raise ValueError(
                f"expected the model these costs were measured for ({self.fingerprint.describe()}), "
                f"got another: {'; '.join(differences)}. "
                "Measure this model with `prescope profile`, or name its cost file"
            )


def read_costs(path: str | os.PathLike[str]) -> CostFile:
    """Read a cost file; raises `InstanceFileError` like `read_instance`."""
    return read_json(path, schema.CostDocument, _understand, _express)


def write_costs(path: str | os.PathLike[str], file: CostFile) -> str:
    """Write a cost file atomically and return its checksum; raises like `write_instance`."""
    return write_json(path, schema.CostDocument, file, _understand, _express)


def _express(file: CostFile) -> schema.CostDocument:
    fingerprint, provenance = file.fingerprint, file.provenance
    document = schema.CostDocument(
        format=schema.COSTS_FORMAT,
        version=VERSION,
        sha256="",
        costs=costs_record(file.costs),
        tier=file.tier.value,
        host_computes=file.host_computes,
        fingerprint=schema.FingerprintRecord(
            family=fingerprint.family,
            layers=fingerprint.layers,
            decoder_layers=fingerprint.decoder_layers,
            experts=fingerprint.experts,
            top_k=fingerprint.top_k,
            gate_up_shape=list(fingerprint.gate_up_shape),
            down_shape=list(fingerprint.down_shape),
            dense_parameters=fingerprint.dense_parameters,
            dtype=fingerprint.dtype,
        ),
        provenance=schema.CostProvenanceRecord(
            measured_on=provenance.measured_on,
            created_by=provenance.created_by,
            machine=_machine_record(provenance.machine),
            threads=provenance.threads,
            depth=provenance.depth,
            context=provenance.context,
            direct=provenance.direct,
            quick=provenance.quick,
            seed=provenance.seed,
            notes=provenance.notes,
        ),
        series=[_series_record(series) for series in file.series],
    )
    return msgspec.structs.replace(document, sha256=digest(document))


def _machine_record(machine: MachineDescription) -> schema.MachineRecord:
    return schema.MachineRecord(
        system=machine.system,
        architecture=machine.architecture,
        cores=machine.cores,
        memory_bytes=machine.memory_bytes,
        python=machine.python,
        torch=machine.torch,
        transformers=machine.transformers,
    )


def _series_record(series: MeasuredSeries) -> schema.SeriesRecord:
    return schema.SeriesRecord(
        kind=series.kind,
        label=series.label,
        workers=series.workers,
        layer=series.layer,
        points=[
            schema.PointRecord(point.x, point.median_ns, point.low_ns, point.high_ns, point.repeats)
            for point in series.points
        ],
    )


def _understand(document: schema.CostDocument) -> CostFile:
    with at_field("costs"):
        costs = costs_from_record(document.costs)
    with at_field("fingerprint"):
        shapes = msgspec.structs.asdict(document.fingerprint)
        for name in ("gate_up_shape", "down_shape"):
            shapes[name] = tuple(shapes[name])
        fingerprint = ModelFingerprint(**shapes)
    with at_field("provenance"):
        record = msgspec.structs.asdict(document.provenance)
        record["machine"] = MachineDescription(**msgspec.structs.asdict(document.provenance.machine))
        provenance = CostProvenance(**record)
    with at_field("series"):
        series = tuple(_series(record) for record in document.series)
    return CostFile(
        costs=costs,
        fingerprint=fingerprint,
        provenance=provenance,
        tier=Tier(document.tier),
        host_computes=document.host_computes,
        series=series,
    )


def _series(record: schema.SeriesRecord) -> MeasuredSeries:
    points = tuple(MeasuredPoint(**msgspec.structs.asdict(point)) for point in record.points)
    return MeasuredSeries(
        kind=record.kind, label=record.label, workers=record.workers, layer=record.layer, points=points
    )
