"""What is optimised: costs, demand, instances, plans and the exact evaluator that judges them."""

from prescope.formulation.arrays import InstanceArrays, instance_arrays
from prescope.formulation.cost_model import CostModel, Link
from prescope.formulation.demand import Demand, PredictedDemand
from prescope.formulation.evaluator import evaluate, makespan_ns
from prescope.formulation.forecast import Forecast
from prescope.formulation.infeasible import InfeasiblePlanError, InfeasibleReason
from prescope.formulation.instance import Instance, Tier
from prescope.formulation.plan import LayerPlan, Plan, PlanInfo, Transfer
from prescope.formulation.presets import ModelShape, Preset, machine_names, model_names, model_shape, preset
from prescope.formulation.schedule import Lane, Schedule, Task, TaskKind
from prescope.formulation.time_curves import LinearTime, TableTime, TimeCurve
from prescope.formulation.units import format_bytes, format_ns, parse_bytes

__all__ = [
    "CostModel",
    "Demand",
    "Forecast",
    "InfeasiblePlanError",
    "InfeasibleReason",
    "Instance",
    "InstanceArrays",
    "Lane",
    "LayerPlan",
    "LinearTime",
    "Link",
    "ModelShape",
    "Plan",
    "PlanInfo",
    "PredictedDemand",
    "Preset",
    "Schedule",
    "TableTime",
    "Task",
    "TaskKind",
    "Tier",
    "TimeCurve",
    "Transfer",
    "evaluate",
    "format_bytes",
    "format_ns",
    "instance_arrays",
    "machine_names",
    "makespan_ns",
    "model_names",
    "model_shape",
    "parse_bytes",
    "preset",
]
