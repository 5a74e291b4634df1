"""The lead DP, improved by local search on the exact simulation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from prescope.formulation.checks import require_int
from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.formulation.workload import LayerTables, Workload, layer_tables, workload
from prescope.solver.base import Draft
from prescope.solver.bound import lower_bound
from prescope.solver.build_plan import build_plan
from prescope.solver.descent import LEVELS, descend
from prescope.solver.hints import read_hint
from prescope.solver.kicks import kick_and_descend
from prescope.solver.methods.intra_layer import split_layers
from prescope.solver.methods.presched import split_pairs
from prescope.solver.quick import quick_plan
from prescope.solver.result import Limits, Statistics
from prescope.solver.simulate import Choice, new_choice, new_track, simulate

# One simulated expert costs about this much in small layers, half of it in large ones.
_EFFORT_NS = 12
# The fast polish may take this part of the step it improves.
_FAST_SHARE = 0.002
_FULL_EFFORT = 10_000_000
_KICK_EFFORT = 4_000_000
# Kicks stop this near to the lower bound, as a part of it.
_CLOSE = 5e-5


class Polish(StrEnum):
    """How much local search follows the DP."""

    NONE = "none"
    FAST = "fast"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadDp:
    """The lead DP of `prescope.solver.lead_dp`, then local search.

    Parameters
    ----------
    polish
        ``NONE``: the DP's plan as it is. ``FAST``: one descent from it whose effort stays below 0.2 % of the
        step. ``FULL``: descents from it, from the splits of ``intra-layer`` and ``presched``, from a plan
        that copies as much as it can, and from the hint; then, unless the best of them is within 0.005 % of
        the lower bound, random kicks with descents. So the result is never behind those rules.
    q_grid
        Grid points per expert of the DP.
    """

    polish: Polish = Polish.FULL
    q_grid: int = 1
    name: str = "dp"

    def __post_init__(self) -> None:
        require_int("q_grid", self.q_grid, 1)

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch; the seed drives the kicks, the adapted hint is one more starting point."""
        work = workload(instance)
        tables = layer_tables(work)
        choice, start_ns, _ = quick_plan(work, tables, q_grid=self.q_grid)
        read = read_hint(instance, work, hint, choice)
        starts = [choice] if read.choice is None else [choice, read.choice]
        if self.polish is Polish.FULL and work.host_computes:
            starts.extend(_rule_starts(work, tables))
        budget = {
            Polish.NONE: 0,
            Polish.FAST: int(start_ns * _FAST_SHARE / _EFFORT_NS),
            Polish.FULL: _FULL_EFFORT,
        }[self.polish]
        if limits.wall_ns is not None:
            budget = min(budget, limits.wall_ns // _EFFORT_NS)
        choice, reached_ns, effort = _best_descent(work, starts, budget)
        bound_ns = None
        if self.polish is Polish.FULL:
            bound_ns = lower_bound(instance, upper_ns=reached_ns)
            _, more = kick_and_descend(
                work,
                choice,
                makespan_ns=reached_ns,
                target_ns=int(bound_ns * (1 + _CLOSE)),
                seed=seed,
                budget=min(budget - effort, _KICK_EFFORT),
            )
            effort += more
        return Draft(
            plan=build_plan(work, choice),
            parameters=(("polish", self.polish.value), ("q_grid", str(self.q_grid))),
            statistics=Statistics(
                hint=read.use,
                starts=len(starts),
                effort=effort,
                start_makespan_ns=start_ns,
                hint_makespan_ns=read.makespan_ns,
                hint_changes=read.changes,
                hint_refused=read.refused,
            ),
        )


def _rule_starts(work: Workload, tables: LayerTables) -> list[Choice]:
    intra, pairs, everything = new_choice(work), new_choice(work), new_choice(work)
    split_layers(work, tables, intra)
    split_pairs(work, tables, pairs)
    everything.take[:] = work.slots > 0
    return [intra, pairs, everything]


def _best_descent(work: Workload, starts: list[Choice], budget: int) -> tuple[Choice, int, int]:
    """Descend from the most promising start first, with what is left from the others."""
    ranked = sorted(
        (
            (simulate(work, start, work.lookahead, new_track(work)), index)
            for index, start in enumerate(starts)
        )
    )
    best, best_ns, spent = starts[ranked[0][1]], ranked[0][0], 0
    for _, index in ranked:
        if spent >= budget:
            break
        reached_ns, effort = descend(work, starts[index], budget - spent, LEVELS)
        spent += effort
        if reached_ns < best_ns or starts[index] is best:
            best, best_ns = starts[index], reached_ns
    return best, best_ns, spent


METHOD = LeadDp()
FAST = LeadDp(polish=Polish.FAST, name="dp-fast")
