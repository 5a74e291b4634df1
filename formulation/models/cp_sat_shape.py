"""What a CP-SAT model of an instance has room for; models of one shape differ in numbers only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class CpSatShape:
    """Which variables and constraints a model has.

    Parameters
    ----------
    missing, residents
        Per layer, how many activated experts of either kind there is room for.
    lookahead
        As in the instance, cut to the number of layers.
    predicts
        Whether prediction work takes the host's time.
    symmetry
        Whether experts that are alike in every respect are kept in one order, which loses nothing.
    """

    missing: tuple[int, ...]
    residents: tuple[int, ...]
    lookahead: int
    predicts: bool
    symmetry: bool

    def has_room(self, work: Workload) -> bool:
        """Whether the experts of an instance of as many layers fit in."""
        missing, residents = np.diff(work.missing_offsets), np.diff(work.resident_offsets)
        return bool((missing <= self.missing).all() and (residents <= self.residents).all())


def shape_of(work: Workload, *, symmetry: bool = True) -> CpSatShape:
    """The shape with exactly the room that an instance needs."""
    return CpSatShape(
        missing=tuple(np.diff(work.missing_offsets).tolist()),
        residents=tuple(np.diff(work.resident_offsets).tolist()),
        lookahead=int(work.lookahead),
        predicts=bool(work.prediction_ns.any()),
        symmetry=symmetry,
    )
