"""The shapes of ``prescope bench`` in docs/json.md."""

from typing import Literal

from json_strict import Strict


class BenchGroup(Strict):
    set: str
    method: str
    kind: Literal["planned", "realised", "followed"]
    runs: int
    without_plan: int
    errors: int
    violations: int
    optimal: int
    proved: int
    gap_to_bound_mean: float | None
    gap_to_bound_max: float | None
    gap_to_best_mean: float | None
    gap_to_best_max: float | None
    plan_time_sgm_ns: float | None
    plan_time_p99_ns: float | None
    share_mean: float | None
    share_p99: float | None
    share_max: float | None
    primal_integral_sgm_ns: float | None
    hit_rate: float | None
    offline_share: float | None


class BenchTrouble(Strict):
    instance: str
    method: str
    limit: str
    seed: int
    makespan_ns: int | None
    lower_bound_ns: int | None
    error: str | None


class BenchFault(Strict):
    instance: str
    method: str
    limit: str
    seed: int
    problem: str


class BenchImprovement(Strict):
    instance: str
    method: str
    limit: str
    seed: int
    old_ns: int | None
    new_ns: int
    lower_bound_ns: int | None


class BenchCheck(Strict):
    checked: int
    trusted_bounds: int
    faults: list[BenchFault]
    improvements: list[BenchImprovement]


class BenchRun(Strict):
    folder: str | None
    ran: int
    runs: int
    summary: list[BenchGroup]
    violations: list[BenchTrouble]
    errors: list[BenchTrouble]
    origins: list[str]
    check: BenchCheck | None


class BenchReport(Strict):
    folder: str
    files: list[str]
    runs: int
    summary: list[BenchGroup]
    violations: list[BenchTrouble]
    errors: list[BenchTrouble]
    origins: list[str]
