"""The value of link time for the coming layers, from their forecasts."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.reduction import fill_layer_table
from prescope.solver.lead_dp import follow, lead_dp, value_at
from prescope.solver.online.outlook_tables import NEGLIGIBLE_NS
from prescope.solver.online.state import GateState, LayerForecast


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outlook:
    """Expected tables of the coming layers and the lead DP's value over them.

    Parameters
    ----------
    order
        Per layer, the experts worth a copy, heaviest expected host time first.
    tables_ns, last_ns, max_copies, dense_ns, copy_ns, value
        As for `prescope.solver.lead_dp.lead_dp`.
    slots, lookahead
        Slots that prefetches may fill, and the DP's lookahead.
    """

    order: tuple[IntArray, ...]
    tables_ns: IntArray
    last_ns: IntArray
    max_copies: IntArray
    dense_ns: IntArray
    copy_ns: IntArray
    value: FloatArray
    slots: int
    lookahead: int

    @classmethod
    def of(cls, state: GateState) -> Outlook:
        """Build the outlook of a gate; ``state.future`` is not empty and ``state.free_slots >= 1``."""
        layers = len(state.future)
        order = tuple(_worth_copying(forecast) for forecast in state.future)
        width = max(experts.shape[0] for experts in order) + 1
        tables_ns = np.zeros((layers, width), dtype=np.int64)
        last_ns = np.zeros((layers, width), dtype=np.int64)
        demoted = np.zeros(width, dtype=np.int64)
        for index, (forecast, experts) in enumerate(zip(state.future, order, strict=True)):
            held = np.flatnonzero(forecast.held)
            held = held[np.argsort(forecast.cpu_ns[held], kind="stable")]
            fill_layer_table(
                forecast.cpu_ns[experts].astype(np.int64),
                forecast.gpu_ns[experts].astype(np.int64),
                forecast.cpu_ns[held].astype(np.int64),
                forecast.gpu_ns[held].astype(np.int64),
                forecast.dense_ns,
                experts.shape[0],
                # A forecast that names too few experts must not make a layer impossible.
                True,
                tables_ns[index],
                last_ns[index],
                demoted,
            )
        max_copies = np.array([experts.shape[0] for experts in order], dtype=np.int64)
        dense_ns = np.array([forecast.dense_ns for forecast in state.future], dtype=np.int64)
        copy_ns = np.array([forecast.copy_ns for forecast in state.future], dtype=np.int64)
        lookahead = 1 if layers == 1 else 2
        value, _ = lead_dp(
            tables_ns,
            last_ns,
            max_copies,
            dense_ns,
            copy_ns,
            state.free_slots,
            1,
            lookahead,
            np.full(layers + 1, np.inf),
            np.zeros(state.free_slots + 1),
        )
        return cls(
            order=order,
            tables_ns=tables_ns,
            last_ns=last_ns,
            max_copies=max_copies,
            dense_ns=dense_ns,
            copy_ns=copy_ns,
            value=value,
            slots=state.free_slots,
            lookahead=lookahead,
        )

    def best_split(self, end_ns: IntArray, link_ns: IntArray) -> int:
        """Number of on-demand copies after which layer and outlook together end earliest.

        Parameters
        ----------
        end_ns, link_ns
            End of the layer, and when the link is free, for every number of copies.
        """
        cap_ns = float(self.slots * self.copy_ns[0])
        return int(_best_split(end_ns, link_ns, self.value[0], float(self.copy_ns[0]), cap_ns))

    def wishes(self, lead_ns: float) -> tuple[tuple[int, int], ...]:
        """Copies on the best path, ``(layers ahead, expert)`` in link order."""
        copies, _, _ = follow(
            self.tables_ns,
            self.last_ns,
            self.max_copies,
            self.dense_ns,
            self.copy_ns,
            self.slots,
            1,
            self.lookahead,
            np.full(self.max_copies.shape[0] + 1, np.inf),
            self.value,
            self._capped(lead_ns),
        )
        return tuple(
            (ahead, int(expert))
            for ahead, (number, experts) in enumerate(zip(copies, self.order, strict=True), start=1)
            for expert in experts[:number]
        )

    def _capped(self, lead_ns: float) -> float:
        return min(float(lead_ns), float(self.slots * self.copy_ns[0]))


@numba.njit(cache=True)
def _best_split(end_ns: IntArray, link_ns: IntArray, value: FloatArray, step_ns: float, cap_ns: float) -> int:
    best, best_total = 0, np.inf
    for copies in range(end_ns.shape[0]):
        lead_ns = min(float(end_ns[copies] - link_ns[copies]), cap_ns)
        total = end_ns[copies] + value_at(value, lead_ns, step_ns)
        if total < best_total:
            best, best_total = copies, total
    return best


def _worth_copying(forecast: LayerForecast) -> IntArray:
    candidates = np.flatnonzero(~forecast.held & (forecast.cpu_ns > NEGLIGIBLE_NS))
    ordered: IntArray = candidates[np.argsort(-forecast.cpu_ns[candidates], kind="stable")]
    return ordered
