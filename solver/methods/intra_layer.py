"""The best split of every layer by itself, without prefetch."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.formulation.workload import LayerTables, Workload, layer_tables, workload
from prescope.solver.base import Draft
from prescope.solver.build_plan import build_plan
from prescope.solver.result import HintUse, Limits, Statistics
from prescope.solver.simulate import Choice, advance, new_choice, new_track, set_layer


@numba.njit(cache=True)
def split_layers(work: Workload, tables: LayerTables, choice: Choice) -> None:
    """Write each layer's best split, simulated exactly with copies from its own gate on."""
    track = new_track(work)
    no_order = np.empty(0, dtype=np.int64)
    for layer in range(work.dense_ns.shape[0]):
        best, best_end = 0, 0
        limit = tables.max_copies[layer] if work.slots > 0 else 0
        least = 0 if work.host_computes else limit
        for copies in range(least, limit + 1):
            set_layer(work, layer, copies, tables.demoted[layer, copies], choice)
            end = advance(work, choice, layer, 0, track, no_order)
            if copies == least or end < best_end:
                best, best_end = copies, end
        set_layer(work, layer, best, tables.demoted[layer, best], choice)
        advance(work, choice, layer, 0, track, no_order)


class IntraLayer:
    """Per layer, the number of on-demand copies (heaviest experts first) that ends the layer earliest.

    The lightest residents may move to the host where that helps. Where the host cannot compute, all missing
    experts are copied.
    """

    name = "intra-layer"

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch; limits and seed change nothing, a hint is ignored."""
        work = workload(instance)
        choice = new_choice(work)
        split_layers(work, layer_tables(work), choice)
        used = HintUse.ABSENT if hint is None else HintUse.IGNORED
        return Draft(plan=build_plan(work, choice, lookahead=0), statistics=Statistics(hint=used))


METHOD = IntraLayer()
