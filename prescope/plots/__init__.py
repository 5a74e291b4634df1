"""Pictures by matplotlib; every function draws on the axes it is given (``ax=``).

Matplotlib comes with ``pip install 'prescope[plot]'`` and is loaded by whoever makes the axes.
"""

from prescope.bench.plots import draw_gaps, draw_plan_times, draw_primal_gaps, draw_profile
from prescope.plots.steps import (
    draw_counter,
    draw_demand,
    draw_residency,
    draw_spent,
    draw_step_times,
    draw_utilisation,
    draw_waterfall,
)
from prescope.report.picture import draw_schedule, legend_handles
from prescope.report.prediction_picture import draw_recall, draw_recall_by_horizon, draw_reliability

__all__ = [
    "draw_counter",
    "draw_demand",
    "draw_gaps",
    "draw_plan_times",
    "draw_primal_gaps",
    "draw_profile",
    "draw_recall",
    "draw_recall_by_horizon",
    "draw_reliability",
    "draw_residency",
    "draw_schedule",
    "draw_spent",
    "draw_step_times",
    "draw_utilisation",
    "draw_waterfall",
    "legend_handles",
]
