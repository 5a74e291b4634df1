"""Control of a running step on a modelled clock: online by a gate policy, or along a solver's plan."""

from prescope.runtime.control.compiled import CompiledStep, online_step
from prescope.runtime.control.online import OnlineStep
from prescope.runtime.control.planned import PlannedStep
from prescope.runtime.control.realised import realise, realise_plan
from prescope.runtime.control.tables import CostTables
from prescope.runtime.control.twin import predicted_twin
from prescope.runtime.control.wave import StepControl, Wave

__all__ = [
    "CompiledStep",
    "CostTables",
    "OnlineStep",
    "PlannedStep",
    "StepControl",
    "Wave",
    "online_step",
    "predicted_twin",
    "realise",
    "realise_plan",
]
