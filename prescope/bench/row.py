"""One run: one row of the results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class RowStatus(StrEnum):
    """How a run ended."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    NO_PLAN = "no plan within the limits"
    UNSUITABLE = "not applicable"
    BOUND_VIOLATED = "bound violated"
    ERROR = "error"


class Kind(StrEnum):
    """What a makespan is."""

    PLANNED = "planned"
    REALISED = "realised"
    FOLLOWED = "followed"


class RunKey(NamedTuple):
    """What tells a run from the others of its sweep."""

    instance: str
    method: str
    limit: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow:
    """One run; the fields are the columns of ``runs.csv`` (docs/benchmarking.md).

    Parameters
    ----------
    set, instance, instance_sha256
        Which problem, with the digest of its content.
    layers, experts, tokens, steps
        Its size; steps of a horizon, ``None`` for an instance.
    method, seed, limit
        What ran.
    kind
        ``PLANNED``: demand known, cost of the plan. ``REALISED``: decided at every gate from what was
        predicted there, cost under the true demand. ``FOLLOWED``: the same, but planned once beforehand.
    status
        How it ended.
    makespan_ns
        By the exact evaluator; of a horizon, the total of its steps; ``None`` without a plan.
    lower_bound_ns, lower_bound_by
        The best bound proved: by the library, or in this run; ``None`` when there is none.
    own_bound_ns
        The bound known in this run alone: the method's own, or the one added where it has none.
    best_known_ns
        Makespan of the library's best plan; ``None`` without one.
    gap_to_bound, gap_to_best
        ``makespan / reference - 1``; negative to the best known when this run improves on it.
    hits, uses, copied_bytes
        Of a horizon: activated experts that were resident when their step began, all activated experts, and
        what the link carried; ``None`` otherwise.
    plan_time_ns, bound_time_ns
        Wall time of the method, and of the bound that is added to it; compiled code warm.
    deterministic_time
        The solver's own measure of its work (CP-SAT: about seconds); ``None`` where it has none.
    effort
        Experts simulated by local search; ``None`` where there is none.
    hint
        What became of the hint.
    incumbents
        ``time_ns:makespan_ns`` of each better plan of an anytime solver, separated by blanks.
    plan, plan_sha256
        Name and checksum of the plan's file; empty without a plan.
    error
        What a broken solver said, or why a method does not apply; empty otherwise.
    prescope, python, ortools, numba, numpy, machine
        Where it ran.
    """

    set: str
    instance: str
    instance_sha256: str
    layers: int
    experts: int
    tokens: int
    steps: int | None = None
    method: str
    seed: int
    limit: str
    kind: Kind
    status: RowStatus
    makespan_ns: int | None = None
    lower_bound_ns: int | None = None
    lower_bound_by: str = ""
    own_bound_ns: int | None = None
    best_known_ns: int | None = None
    gap_to_bound: float | None = None
    gap_to_best: float | None = None
    hits: int | None = None
    uses: int | None = None
    copied_bytes: int | None = None
    plan_time_ns: int | None = None
    bound_time_ns: int | None = None
    deterministic_time: float | None = None
    effort: int | None = None
    hint: str = ""
    incumbents: str = ""
    plan: str = ""
    plan_sha256: str = ""
    error: str = ""
    prescope: str
    python: str
    ortools: str
    numba: str
    numpy: str
    machine: str

    @property
    def key(self) -> RunKey:
        """What tells this run from the others of its sweep."""
        return RunKey(self.instance, self.method, self.limit, self.seed)

    @property
    def failed(self) -> bool:
        """Whether the solver broke, or beat a bound said to be proved."""
        return self.status in (RowStatus.ERROR, RowStatus.BOUND_VIOLATED)


def relative_gap(value_ns: int | None, reference_ns: int | None) -> float | None:
    """``value / reference - 1``; 0 when both are 0, ``None`` when either is unknown."""
    if value_ns is None or reference_ns is None:
        return None
    return (value_ns - reference_ns) / max(reference_ns, 1)
