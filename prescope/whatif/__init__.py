"""What more memory, a faster link, a faster processor, a larger batch or a better predictor would bring."""

from prescope.whatif.anchor import matching_overhead_ns, matching_pace
from prescope.whatif.as_run import Pace, costs_at_pace, pace_of
from prescope.whatif.batches import Material, draw_counts, material
from prescope.whatif.forecast import degraded
from prescope.whatif.knee import Knee, find_knee
from prescope.whatif.machines import machine_as_run, machine_of
from prescope.whatif.outcome import Outcome, Sweep, outcome_of
from prescope.whatif.plots import draw_grid, draw_sweep
from prescope.whatif.point import Lever, Machine, Point, costs_at
from prescope.whatif.run import WhatIf, run_whatif
from prescope.whatif.settings import WhatIfSettings
from prescope.whatif.simulate import Steps, simulate
from prescope.whatif.words import sentences

__all__ = [
    "Knee",
    "Lever",
    "Machine",
    "Material",
    "Outcome",
    "Pace",
    "Point",
    "Steps",
    "Sweep",
    "WhatIf",
    "WhatIfSettings",
    "costs_at",
    "costs_at_pace",
    "degraded",
    "draw_counts",
    "draw_grid",
    "draw_sweep",
    "find_knee",
    "machine_as_run",
    "machine_of",
    "matching_overhead_ns",
    "matching_pace",
    "material",
    "outcome_of",
    "pace_of",
    "run_whatif",
    "sentences",
    "simulate",
]
