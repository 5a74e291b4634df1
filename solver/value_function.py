"""The lead DP's value function, kept after planning for re-use and for recourse at the gates."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.lead_dp import recourse


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

    def recourse(self, layer: int, table_ns: IntArray, last_ns: IntArray, lead_ns: float) -> int:
        """How many experts ``layer`` should copy, its table being ``table_ns`` and the lead ``lead_ns``.

        Parameters
        ----------
        layer
            Which layer.
        table_ns, last_ns
            Its true table (`prescope.formulation.reduction.layer_table`), int64 ``[M + 1]``.
        lead_ns
            Lead on entering it.
        """
        copy_next = int(self.copy_ns[min(layer + 1, len(self.copy_ns) - 1)])
        chosen = recourse(
            table_ns,
            last_ns,
            len(table_ns) - 1,
            self.dense_ns[layer],
            self.copy_ns[layer],
            copy_next,
            float(min(lead_ns, self.caps_ns[layer])),
            0.0,
            self.lookahead,
            self.slots,
            float(min(self.caps_ns[layer + 1], self.slots * copy_next)),
            self.value_ns[layer + 1],
            copy_next / self.q_grid,
        )
        return int(chosen[0])
