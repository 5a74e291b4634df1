"""The model behind every picture of plans and runs: what was planned, what happened, and why."""

from prescope.inspection.counters import Counter, counters, utilisation
from prescope.inspection.critical import Because, CriticalLink, critical_path, step_path
from prescope.inspection.demand import DemandRow, demand_rows
from prescope.inspection.layers import LayerRow, layer_rows
from prescope.inspection.open import open_view
from prescope.inspection.spent import Part, spent
from prescope.inspection.view import (
    LayerMap,
    StepView,
    View,
    ViewKind,
    ViewTable,
    recorded_view,
    step_of,
)
from prescope.inspection.waterfall import Waterfall, add_waterfalls, waterfall

__all__ = [
    "Because",
    "Counter",
    "CriticalLink",
    "DemandRow",
    "LayerMap",
    "LayerRow",
    "Part",
    "StepView",
    "View",
    "ViewKind",
    "ViewTable",
    "Waterfall",
    "add_waterfalls",
    "counters",
    "critical_path",
    "demand_rows",
    "layer_rows",
    "open_view",
    "recorded_view",
    "spent",
    "step_of",
    "step_path",
    "utilisation",
    "waterfall",
]
