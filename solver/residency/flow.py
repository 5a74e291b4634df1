"""Who should be where when, as a min-cost flow of places on the device through the uses of experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray
from prescope.solver.errors import SolverError
from prescope.solver.residency.uses import Uses


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a nanosecond of each lane is worth; none is negative and they add up to 1.

    Parameters
    ----------
    cpu, gpu, link
        Shares of the makespan that each lane is charged with.
    """

    cpu: float
    gpu: float
    link: float

    def __post_init__(self) -> None:
        values = (self.cpu, self.gpu, self.link)
        if min(values) < 0 or abs(sum(values) - 1) > 1e-9:
            raise ValueError(f"expected prices >= 0 that add up to 1, got {values}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flow:
    """The cheapest assignment at given prices.

    Parameters
    ----------
    cost_ns
        A lower bound on the priced work of all lanes for the uses.
    cpu_ns, gpu_ns, link_ns
        The work of each lane in this assignment.
    kept
        Whether the expert of a use keeps its place until its next use, bool ``[U]``.
    """

    cost_ns: float
    cpu_ns: int
    gpu_ns: int
    link_ns: int
    kept: npt.NDArray[np.bool_]


class ResidencyFlow:
    """The network of one size of experts, solved at different prices.

    A place flows through time. From the pool it may be filled with the expert of a use (the link works),
    serve that use (the device works instead of the host), and then stay with the expert until its next use
    or go back to the pool. A use without a place runs on the host, or from a copy that is gone afterwards.

    Every plan of every horizon does no less work than some flow, as no more experts than there are places
    and slots are ever on the device; so ``cost_ns`` is a valid bound when ``places`` counts both.

    Parameters
    ----------
    uses
        The uses, all of one size.
    places
        Experts that can be on the device at once.
    first_keys
        ``layer * experts + expert`` of those there at the beginning, at most ``places``.
    host_computes
        Whether the host can run experts.
    """

    def __init__(self, uses: Uses, *, places: int, first_keys: list[int], host_computes: bool = True) -> None:
        if len(first_keys) > places:
            raise ValueError(f"expected at most {places} experts at the beginning, got {len(first_keys)}")
        self._uses, self._host_computes = uses, host_computes
        count = len(uses)
        times, slot_of_time = np.unique(uses.time, return_inverse=True)
        pools = max(1, len(times))
        # Nodes: the pools in order of time, in and out of every use, the first residents.
        enter, leave = pools + np.arange(count), pools + count + np.arange(count)
        first = {int(key): use for use, key in reversed(list(enumerate(uses.key)))}
        known = [first[key] for key in first_keys if key in first]
        guests = pools + 2 * count + np.arange(len(known))
        stays = np.flatnonzero(uses.following >= 0)
        chain = np.arange(pools - 1)
        tails = [chain, slot_of_time, enter, leave, leave[stays], guests, guests]
        heads = [
            chain + 1,
            enter,
            leave,
            slot_of_time,
            enter[uses.following[stays]],
            enter[np.array(known, dtype=np.int64)],
            np.zeros(len(known), dtype=np.int64),
        ]
        self._tails = np.concatenate(tails).astype(np.int32)
        self._heads = np.concatenate(heads).astype(np.int32)
        self._capacities = np.ones(self._tails.shape[0], dtype=np.int64)
        self._capacities[: pools - 1] = places
        starts = np.cumsum([0, *(len(tail) for tail in tails)])
        self._load, self._serve, self._stay = (slice(starts[i], starts[i + 1]) for i in (1, 2, 4))
        self._stays = stays
        self._supplies = np.zeros(pools + 2 * count + len(known), dtype=np.int64)
        self._supplies[guests] = 1
        self._supplies[0] += places - len(known)
        self._supplies[pools - 1] -= places

    def solve(self, prices: Prices) -> Flow:
        """The cheapest flow.

        Raises
        ------
        SolverError
            When the flow solver gives up.
        """
        from ortools.graph.python import min_cost_flow

        uses = self._uses
        copied = prices.gpu * uses.gpu_ns + prices.link * uses.copy_ns
        hosted = prices.cpu * uses.cpu_ns if self._host_computes else np.full(len(uses), np.inf)
        without: FloatArray = np.minimum(copied, hosted)
        # Whole numbers as fine as the solver's 64 bits allow: it multiplies them by the number of nodes.
        largest = max(1, int(uses.copy_ns.max(initial=0) + uses.gpu_ns.max(initial=0)))
        scale = min(1024, max(1, 2**58 // (largest * self._supplies.shape[0])))
        costs = np.zeros(self._tails.shape[0], dtype=np.int64)
        costs[self._load] = np.floor(scale * prices.link * uses.copy_ns)
        costs[self._serve] = np.floor(scale * (prices.gpu * uses.gpu_ns - without))
        solver: Any = min_cost_flow.SimpleMinCostFlow()
        arcs = solver.add_arcs_with_capacity_and_unit_cost(self._tails, self._heads, self._capacities, costs)
        solver.set_nodes_supplies(np.arange(self._supplies.shape[0], dtype=np.int32), self._supplies)
        status = solver.solve()
        if status != solver.OPTIMAL:
            raise SolverError(f"expected an optimal residency flow, got status {status}")
        flows = solver.flows(arcs)
        loaded, served = flows[self._load] > 0, flows[self._serve] > 0
        by_copy = ~served & (copied <= hosted)
        kept = np.zeros(len(uses), dtype=np.bool_)
        kept[self._stays] = flows[self._stay] > 0
        return Flow(
            # A cycle through a use may have become cheaper than nothing by two roundings: taken off again.
            cost_ns=float(without.sum()) + (solver.optimal_cost() - 2.0 * len(uses)) / scale,
            cpu_ns=int(uses.cpu_ns[~served & ~by_copy].sum()),
            gpu_ns=int(uses.gpu_ns[served | by_copy].sum()),
            link_ns=int(uses.copy_ns[loaded | by_copy].sum()),
            kept=kept,
        )
