"""Plan files: ``.json`` and ``.json.gz``."""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec

from prescope.formulation import Instance, Plan
from prescope.instances import _schema as schema
from prescope.instances._convert import at_field
from prescope.instances._json_file import digest, read_json, write_json
from prescope.instances._plan_convert import plan_from_record, plan_record
from prescope.instances.instance_file import instance_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A plan and the instance it is for.

    Parameters
    ----------
    plan
        The decisions.
    instance_name
        Name of the instance.
    instance_sha256
        Its `instance_digest`.
    """

    plan: Plan
    instance_name: str
    instance_sha256: str

    @property
    def sha256(self) -> str:
        """Checksum of everything here, as the file stores it."""
        return _express(self).sha256

    def require_instance(self, instance: Instance) -> None:
        """Refuse another instance than the plan's.

        Raises
        ------
        ValueError
            Naming both instances.
        """
        found = instance_digest(instance)
        if found != self.instance_sha256:
            raise ValueError(
                f"expected instance {self.instance_name!r} with checksum {self.instance_sha256}, "
                f"got {instance.name!r} with {found}"
            )


def read_plan(path: str | os.PathLike[str]) -> PlanFile:
    """Read a plan file; raises `InstanceFileError` like `read_instance`.

    Whether the plan fits its instance is the evaluator's to say.
    """
    return read_json(path, schema.PlanDocument, _understand, _express)


def write_plan(path: str | os.PathLike[str], plan: Plan, instance: Instance) -> str:
    """Write a plan for an instance atomically and return its checksum; raises like `write_instance`."""
    file = PlanFile(plan=plan, instance_name=instance.name, instance_sha256=instance_digest(instance))
    return write_json(path, schema.PlanDocument, file, _understand, _express)


def _express(file: PlanFile) -> schema.PlanDocument:
    document = schema.PlanDocument(
        format=schema.PLAN_FORMAT,
        version=schema.VERSION,
        sha256="",
        instance_name=file.instance_name,
        instance_sha256=file.instance_sha256,
        plan=plan_record(file.plan),
    )
    return msgspec.structs.replace(document, sha256=digest(document))


def _understand(document: schema.PlanDocument) -> PlanFile:
    with at_field("plan"):
        plan = plan_from_record(document.plan)
    return PlanFile(plan=plan, instance_name=document.instance_name, instance_sha256=document.instance_sha256)
