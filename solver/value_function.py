"""The lead DP's value function, kept after planning for re-use and for recourse at the gates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.workload import LayerTables, Workload
from prescope.solver.lead_dp import follow, lead_dp, recourse


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
    slots, q_grid, lookahead
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
            float(min(lead_ns, self.caps_ns[layer])),
            0.0,
            self.lookahead,
            self.slots,
            float(min(self.caps_ns[layer + 1], self.slots * copy_next)),
            self.value_ns[layer + 1],
            copy_next / self.q_grid,
        )
        return int(chosen[0])


def make_value_function(
    work: Workload, tables: LayerTables, *, q_grid: int, caps_ns: FloatArray | None = None
) -> ValueFunction:
    """Run the lead DP over all layers of a batch, with nothing to gain after the last."""
    if caps_ns is None:
        caps_ns = np.full(len(work.dense_ns) + 1, np.inf)
    value_ns, _ = lead_dp(
        tables.table_ns,
        tables.last_ns,
        tables.max_copies,
        work.dense_ns,
        work.copy_ns,
        work.slots,
        q_grid,
        work.lookahead,
        caps_ns,
        np.zeros(work.slots * q_grid + 1),
    )
    return ValueFunction(
        value_ns=value_ns,
        dense_ns=work.dense_ns,
        copy_ns=work.copy_ns,
        caps_ns=caps_ns,
        slots=work.slots,
        q_grid=q_grid,
        lookahead=work.lookahead,
    )


def follow_value(work: Workload, tables: LayerTables, function: ValueFunction) -> IntArray:
    """Copies of each layer along the path the value function prefers, int64 ``[L]``."""
    copies: IntArray = follow(
        tables.table_ns,
        tables.last_ns,
        tables.max_copies,
        work.dense_ns,
        work.copy_ns,
        work.slots,
        function.q_grid,
        work.lookahead,
        function.caps_ns,
        function.value_ns,
        -float(work.link_ready_ns),
    )[0]
    return copies
