"""Room that a model keeps for the batches to come."""

from __future__ import annotations

import numpy as np

from prescope.formulation.models.cp_sat_shape import CpSatShape, shape_of
from prescope.formulation.workload import Workload


def roomy(most: int, experts: int) -> int:
    """A quarter more than the most seen, and at least two, but no more than there are experts."""
    return min(experts, most + max(2, most // 4))


def roomy_shape(work: Workload, experts: int, *, symmetry: bool) -> CpSatShape:
    """A shape for this instance and its like: every layer has room for the fullest one's experts."""
    shape = shape_of(work, symmetry=symmetry)
    active = int((np.diff(work.missing_offsets) + np.diff(work.resident_offsets)).max())
    residents = max(shape.residents)
    missing = roomy(active, experts)
    resident = roomy(residents, experts) if residents else 0
    return CpSatShape(
        missing=(missing,) * len(shape.missing),
        residents=(resident,) * len(shape.residents),
        lookahead=shape.lookahead,
        predicts=shape.predicts,
        symmetry=symmetry,
    )
