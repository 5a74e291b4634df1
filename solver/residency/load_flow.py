"""Who should be where when, given what the steps copy anyway and how long their link is idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import IntArray
from prescope.solver.errors import SolverError
from prescope.solver.residency.uses import Uses


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Itinerary:
    """The best assignment of places.

    Parameters
    ----------
    kept
        Whether the expert of a use keeps its place until its next use, bool ``[U]``.
    loaded_at
        The time in whose idle link the expert of a use is brought to be kept for it, -1 if it is not;
        int64 ``[U]``.
    from_start
        Whether the expert of a first use is resident from the beginning until then, bool ``[U]``.
    """

    kept: npt.NDArray[np.bool_]
    loaded_at: IntArray
    from_start: npt.NDArray[np.bool_]

    def there(self, uses: Uses, boundary: int) -> IntArray:
        """Keys that have a place at a time without being used there, int64."""
        across = self.kept & (uses.time < boundary)
        across[across] = uses.time[uses.following[across]] >= boundary
        waiting = self.from_start | ((self.loaded_at >= 0) & (self.loaded_at < boundary))
        waiting &= uses.time >= boundary
        return np.unique(np.concatenate([uses.key[across], uses.key[waiting]]))


def best_itinerary(
    uses: Uses,
    *,
    worth_ns: IntArray,
    brought: npt.NDArray[np.bool_],
    window: IntArray,
    layers: int,
    places: int,
    first_keys: list[int],
) -> Itinerary:
    """Assign places so that the uses that find their expert there are worth most, as a min-cost flow.

    A place may be taken for nothing by an expert that a step copies for a use anyway, after that use, or by
    one that is brought while the link is idle. Such loads are anonymous in the flow, which keeps it small,
    and get their experts afterwards, first come first served.

    Parameters
    ----------
    uses
        The uses, all of one size.
    worth_ns
        What finding the expert there is worth, int64 ``[U]``.
    brought
        Whether the step copies the expert for this use, bool ``[U]``.
    window
        Experts that the idle link could bring at each time ``step * layers + layer``, int64 ``[T]``.
    layers
        Layers of a step: who is brought by an idle link is there from the next step on.
    places
        Permanent places.
    first_keys
        ``layer * experts + expert`` of those there at the beginning, at most ``places``.

    Raises
    ------
    SolverError
        When the flow solver gives up.
    """
    from ortools.graph.python import min_cost_flow

    count, times = len(uses), int(window.shape[0])
    pool, wait = np.arange(times + 1), times + 1 + np.arange(times + 1)
    enter = 2 * (times + 1) + np.arange(count)
    leave = enter + count
    first = {int(key): use for use, key in reversed(list(enumerate(uses.key)))}
    known = np.array([first[key] for key in first_keys if key in first], dtype=np.int64)
    guests = 2 * (times + 1) + 2 * count + np.arange(len(known))
    stays, copied = np.flatnonzero(uses.following >= 0), np.flatnonzero(brought)
    # A load costs a little, so that none is made for nothing.
    groups: list[tuple[IntArray, IntArray, int | IntArray, int | IntArray]] = [
        (pool[:-1], pool[1:], places, 0),
        (pool[:-1], wait[1:], window, 1),
        (wait[:-1], wait[1:], places, 0),
        (wait[-1:], pool[-1:], places, 0),
        (wait[uses.time // layers * layers], enter, 1, 0),
        (pool[uses.time[copied]], leave[copied], 1, 0),
        (enter, leave, 1, -worth_ns),
        (leave[stays], enter[uses.following[stays]], 1, 0),
        (leave, pool[uses.time], 1, 0),
        (guests, enter[known], 1, 0),
        (guests, np.zeros(len(known), dtype=np.int64), 1, 0),
    ]
    sizes = [len(tails) for tails, _, _, _ in groups]
    starts = np.cumsum([0, *sizes])
    solver: Any = min_cost_flow.SimpleMinCostFlow()
    arcs = solver.add_arcs_with_capacity_and_unit_cost(
        np.concatenate([tails for tails, _, _, _ in groups]).astype(np.int32),
        np.concatenate([heads for _, heads, _, _ in groups]).astype(np.int32),
        np.concatenate([np.broadcast_to(most, n) for (_, _, most, _), n in zip(groups, sizes, strict=True)]),
        np.concatenate([np.broadcast_to(cost, n) for (_, _, _, cost), n in zip(groups, sizes, strict=True)]),
    )
    supplies = np.zeros(2 * (times + 1) + 2 * count + len(known), dtype=np.int64)
    supplies[guests] = 1
    supplies[0] += places - len(known)
    supplies[times] -= places
    solver.set_nodes_supplies(np.arange(supplies.shape[0], dtype=np.int32), supplies)
    status = solver.solve()
    if status != solver.OPTIMAL:
        raise SolverError(f"expected an optimal residency flow, got status {status}")
    flows = np.asarray(solver.flows(arcs))
    loads, served, stay, guest = (flows[starts[group] : starts[group + 1]] for group in (1, 4, 7, 9))
    kept = np.zeros(count, dtype=np.bool_)
    kept[stays] = stay > 0
    loaded_at = np.full(count, -1, dtype=np.int64)
    receivers = np.flatnonzero(served > 0)
    receivers = receivers[np.argsort(uses.time[receivers], kind="stable")]
    loaded_at[receivers] = np.repeat(np.arange(times), loads)[: len(receivers)]
    from_start = np.zeros(count, dtype=np.bool_)
    from_start[known[guest > 0]] = True
    return Itinerary(kept=kept, loaded_at=loaded_at, from_start=from_start)
