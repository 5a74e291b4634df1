"""The shape of `prescope whatif`."""

from typing import Literal

from json_strict import Strict


class PointShape(Strict):
    memory_bytes: int
    link_bytes_per_s: int
    speed: float
    batch: int
    recall: float | None
    steps: int
    tokens_per_s: float
    mean_ns: int
    median_ns: int
    p99_ns: int
    copied_bytes_per_token: float


class SweepShape(Strict):
    lever: Literal["memory", "link", "speed", "batch", "recall"]
    values: list[float | None]
    tokens_per_s: list[float]
    p99_ns: list[int]
    now: int
    knee: float | None


class WhatIfAnswer(Strict):
    trace: str
    machine: str
    tier: Literal["ram", "disk"]
    steps: int
    warm_steps: int
    lookahead: int
    overhead_ns: int
    seed: int
    policy: str
    residency: str | None
    same_sequences: bool
    sentences: list[str]
    now: PointShape
    sweeps: list[SweepShape]
    points: list[PointShape]
    output: str | None
