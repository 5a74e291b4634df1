"""The shapes of ``prescope run`` and ``generate`` in docs/json.md."""

from typing import Literal

from json_strict import Strict


class Prefetch(Strict):
    useful: int
    wasted: int
    late: int


class Phase(Strict):
    steps: int
    tokens: int
    planned_ns: int
    simulated_ns: int
    executed_ns: int | None


class Phases(Strict):
    prefill: Phase
    decode: Phase


class RunRow(Strict):
    policy: str
    retention: str
    predictor: str
    batch: int
    link: int
    tokens_equal: bool
    planned_ns: int
    simulated_ns: int
    executed_ns: int | None
    violations: int
    bytes_moved: int
    hit_rate: float | None
    exchanges: int
    prefetch: Prefetch
    tokens_per_s: float | None
    new_tokens: int
    gpu_share: float | None
    plan_ns: int
    dilation: float
    violations_by_kind: dict[str, int]
    violation_share: float
    refused: str | None
    degraded: list[str]
    phases: Phases


class Run(Strict):
    model: str
    preset: str
    dilation: float
    backend: Literal["cpu", "sim"]
    clairvoyant: bool
    expert_memory_bytes: int
    residents: int
    slots: int
    experts: int
    rows: list[RunRow]


class Generate(Strict):
    model: str
    text: str
    policy: str
    predictor: str
    residency: str
    costs: str
    backend: str
    expert_memory_bytes: int
    arena_bytes: int
    experts_bytes: int
    load_ns: int
    prompt_tokens: int
    new_tokens: int
    prefill_ns: int
    decode_ns: int | None
    tokens_per_s: float | None
    token_p50_ns: int | None
    token_p99_ns: int | None
    bytes_per_token: float | None
    bytes_read: int
    hit_rate: float | None
    direct: bool
    degraded: list[str]
