"""The saved problems: schema, read and write, library, builders and generators."""

from prescope.instances._json_file import file_format
from prescope.instances.batches import BatchStep, decode_batches, popularity, prefill
from prescope.instances.builders import build_instances
from prescope.instances.cost_file import CostFile, read_costs, write_costs
from prescope.instances.cost_provenance import CostProvenance, MachineDescription
from prescope.instances.cost_series import MeasuredPoint, MeasuredSeries
from prescope.instances.file_error import InstanceFileError
from prescope.instances.horizon_builder import build_horizon, horizon_steps
from prescope.instances.horizon_file import HorizonFile, horizon_digest, read_horizon, write_horizon
from prescope.instances.horizon_plan_file import HorizonPlanFile, read_horizon_plan, write_horizon_plan
from prescope.instances.instance_file import InstanceFile, instance_digest, read_instance, write_instance
from prescope.instances.library import (
    load_library_horizon,
    load_library_horizon_plan,
    load_library_instance,
    load_library_plan,
)
from prescope.instances.library_index import (
    LibraryEntry,
    library_root,
    library_sets,
    list_library,
    write_index,
)
from prescope.instances.model_fingerprint import ModelFingerprint
from prescope.instances.plan_file import PlanFile, read_plan, write_plan
from prescope.instances.provenance import Bounds, Provenance
from prescope.instances.recording import RecordedStep, Recording
from prescope.instances.recording_file import read_recording, write_recording
from prescope.instances.residents import choose_residents
from prescope.instances.routing_trace import NOT_RECORDED, Phase, RoutingTrace, TraceMeta
from prescope.instances.shallow_residents import favour_shallow
from prescope.instances.synthetic import (
    SyntheticSettings,
    synthetic_demand,
    synthetic_instance,
    synthetic_popularity,
    synthetic_settings,
)
from prescope.instances.synthetic_routing import (
    RoutingRecipe,
    fitted_recipe,
    recipe_names,
    synthetic_trace,
)
from prescope.instances.trace_file import read_trace, write_trace
from prescope.instances.update_best import update_best
from prescope.instances.verify_library import LibraryFault, verify_library

__all__ = [
    "NOT_RECORDED",
    "BatchStep",
    "Bounds",
    "CostFile",
    "CostProvenance",
    "HorizonFile",
    "HorizonPlanFile",
    "InstanceFile",
    "InstanceFileError",
    "LibraryEntry",
    "LibraryFault",
    "MachineDescription",
    "MeasuredPoint",
    "MeasuredSeries",
    "ModelFingerprint",
    "Phase",
    "PlanFile",
    "Provenance",
    "RecordedStep",
    "Recording",
    "RoutingRecipe",
    "RoutingTrace",
    "SyntheticSettings",
    "TraceMeta",
    "build_horizon",
    "build_instances",
    "choose_residents",
    "decode_batches",
    "favour_shallow",
    "file_format",
    "fitted_recipe",
    "horizon_digest",
    "horizon_steps",
    "instance_digest",
    "library_root",
    "library_sets",
    "list_library",
    "load_library_horizon",
    "load_library_horizon_plan",
    "load_library_instance",
    "load_library_plan",
    "popularity",
    "prefill",
    "read_costs",
    "read_horizon",
    "read_horizon_plan",
    "read_instance",
    "read_plan",
    "read_recording",
    "read_trace",
    "recipe_names",
    "synthetic_demand",
    "synthetic_instance",
    "synthetic_popularity",
    "synthetic_settings",
    "synthetic_trace",
    "update_best",
    "verify_library",
    "write_costs",
    "write_horizon",
    "write_horizon_plan",
    "write_index",
    "write_instance",
    "write_plan",
    "write_recording",
    "write_trace",
]
