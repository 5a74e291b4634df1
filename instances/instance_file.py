"""Instance files: ``.json`` and ``.json.gz``."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field

import msgspec

from prescope.formulation import Instance
from prescope.instances import _schema as schema
from prescope.instances._convert import at_field, instance_from_record, instance_record
from prescope.instances._json_file import digest, read_json, write_json
from prescope.instances.provenance import Bounds, Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFile:
    """An instance with what is known about it.

    Parameters
    ----------
    instance
        The problem.
    provenance
        Where it comes from.
    bounds
        What is proved about it.
    """

    instance: Instance
    provenance: Provenance
    bounds: Bounds = field(default_factory=Bounds)

    @property
    def sha256(self) -> str:
        """Checksum of everything here, as the file stores it."""
        return _express(self).sha256

    @property
    def instance_sha256(self) -> str:
        """Checksum of the problem alone, `instance_digest`."""
        return instance_digest(self.instance)


def instance_digest(instance: Instance) -> str:
    """SHA-256 of the problem alone: what a plan refers to, unchanged by better bounds or notes."""
    return hashlib.sha256(msgspec.json.encode(instance_record(instance))).hexdigest()


def read_instance(path: str | os.PathLike[str]) -> InstanceFile:
    """Read an instance file.

    Raises
    ------
    InstanceFileError
        When it is missing, truncated, altered, from a newer version, too large or against the schema; the
        message names the file, the field and the remedy.
    """
    return read_json(path, schema.InstanceDocument, _understand, _express)


def write_instance(path: str | os.PathLike[str], file: InstanceFile) -> str:
    """Write an instance file atomically (``.json``, or ``.json.gz`` compressed) and return its checksum.

    Raises
    ------
    InstanceFileError
        When the name has another ending or the content is beyond the limits of the format.
    OSError
        When the folder cannot be written to.
    """
    return write_json(path, schema.InstanceDocument, file, _understand, _express)


def _express(file: InstanceFile) -> schema.InstanceDocument:
    provenance, bounds = file.provenance, file.bounds
    document = schema.InstanceDocument(
        format=schema.INSTANCE_FORMAT,
        version=schema.VERSION,
        sha256="",
        instance=instance_record(file.instance),
        provenance=schema.ProvenanceRecord(
            source=provenance.source,
            generator=provenance.generator,
            seed=provenance.seed,
            created_by=provenance.created_by,
            notes=provenance.notes,
        ),
        bounds=schema.BoundsRecord(
            optimum_ns=bounds.optimum_ns,
            optimum_by=bounds.optimum_by,
            lower_bound_ns=bounds.lower_bound_ns,
            lower_bound_by=bounds.lower_bound_by,
        ),
    )
    return msgspec.structs.replace(document, sha256=digest(document))


def _understand(document: schema.InstanceDocument) -> InstanceFile:
    instance = instance_from_record(document.instance)
    with at_field("provenance"):
        if not document.provenance.created_by:
            raise ValueError("expected who created the file in created_by, got an empty text")
        provenance = Provenance(**msgspec.structs.asdict(document.provenance))
    with at_field("bounds"):
        bounds = Bounds(**msgspec.structs.asdict(document.bounds))
    return InstanceFile(instance=instance, provenance=provenance, bounds=bounds)
