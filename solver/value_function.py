"""The lead DP's value function, kept after planning for re-use and for recourse at the gates."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.reduction import layer_table
from prescope.formulation.workload import flatten
from prescope.solver.lead_dp import recourse

BoolArray = npt.NDArray[np.bool_]


@numba.njit(cache=True)
def _replan(
    active: BoolArray,
    resident: BoolArray,
    cpu_ns: IntArray,
    gpu_ns: IntArray,
    host_computes: bool,
    layer: int,
    lead_ns: float,
    value_ns: FloatArray,
    dense_ns: IntArray,
    copy_ns: IntArray,
    caps_ns: FloatArray,
    slots: int,
    q_grid: int,
    lookahead: int,
) -> tuple[int, int, IntArray, IntArray]:
    """Sort, table and recourse in one compiled call."""
    flat = flatten(
        active.reshape(1, -1),
        resident.reshape(1, -1),
        cpu_ns.reshape(1, -1),
        gpu_ns.reshape(1, -1),
        host_computes,
    )
    table, last, demoted = layer_table(
        flat[2], flat[3], flat[6], flat[7], dense_ns[layer], flat[1].shape[0], host_computes
    )
    copy_next = copy_ns[min(layer + 1, copy_ns.shape[0] - 1)]
    copies, _, _, _ = recourse(
        table,
        last,
        flat[1].shape[0],
        dense_ns[layer],
        copy_ns[layer],
        copy_next,
        min(lead_ns, caps_ns[layer]),
        0.0,
        lookahead,
        slots,
        min(caps_ns[layer + 1], float(slots * copy_next)),
        value_ns[layer + 1],
        copy_next / q_grid,
    )
    return copies, demoted[copies], flat[1], flat[5]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueFunction:
    """Time still to go on entering each of ``L`` layers, against the link's lead.

    Parameters
    ----------
    value_ns
        float64 ``[L + 1, slots * q_grid + 1]``; see `prescope.solver.lead_dp.lead_dp`.
    dense_ns, copy_ns
        Per layer, int64 ``[L]``.
    caps_ns
        Largest usable lead on entering each layer, float64 ``[L + 1]``.
    slots
        Leads up to this many experts are told apart: the instance's slots, or less where less was needed.
    q_grid, lookahead
        What it was made for.
    """

    value_ns: FloatArray
    dense_ns: IntArray
    copy_ns: IntArray
    caps_ns: FloatArray
    slots: int
    q_grid: int
    lookahead: int

    def replan(
        self,
        layer: int,
        lead_ns: float,
        *,
        active: BoolArray,
        resident: BoolArray,
        cpu_ns: IntArray,
        gpu_ns: IntArray,
        host_computes: bool = True,
    ) -> tuple[IntArray, IntArray]:
        """Per-layer recourse: what to do once the layer's true counts are known.

        Parameters
        ----------
        layer
            Which layer.
        lead_ns
            Link time already spent, on entering the layer, on copies for it and later ones; negative while
            the link is busy with older work.
        active, resident
            Whether each expert has tokens, and whether its weights are pinned on the device; bool ``[E]``.
        cpu_ns, gpu_ns
            True times of the layer's experts, int64 ``[E]``.
        host_computes
            As in the instance.

        Returns
        -------
        copied
            Missing experts to run on the device, in copy order.
        demoted
            Residents to run on the host.
        """
        copies, demoted, missing, residents = _replan(
            active,
            resident,
            cpu_ns,
            gpu_ns,
            host_computes,
            layer,
            lead_ns,
            self.value_ns,
            self.dense_ns,
            self.copy_ns,
            self.caps_ns,
            self.slots,
            self.q_grid,
            self.lookahead,
        )
        return missing[:copies], residents[:demoted]
