"""The saved problems: schema, read and write, library, builders and generators."""

from prescope.instances.file_error import InstanceFileError
from prescope.instances.instance_file import InstanceFile, instance_digest, read_instance, write_instance
from prescope.instances.plan_file import PlanFile, read_plan, write_plan
from prescope.instances.provenance import Bounds, Provenance
from prescope.instances.residents import choose_residents
from prescope.instances.synthetic import (
    SyntheticSettings,
    synthetic_demand,
    synthetic_instance,
    synthetic_popularity,
    synthetic_settings,
)

__all__ = [
    "Bounds",
    "InstanceFile",
    "InstanceFileError",
    "PlanFile",
    "Provenance",
    "SyntheticSettings",
    "choose_residents",
    "instance_digest",
    "read_instance",
    "read_plan",
    "synthetic_demand",
    "synthetic_instance",
    "synthetic_popularity",
    "synthetic_settings",
    "write_instance",
    "write_plan",
]
