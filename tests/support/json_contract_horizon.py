"""The shapes of answers about horizons in docs/json.md."""

from typing import Literal

from json_strict import Strict


class SolveHorizon(Strict):
    horizon: str
    method: str
    seed: int
    steps: int
    total_ns: int
    step_ns: list[int]
    lower_bound_ns: int
    gap: float
    hits: int
    uses: int
    copied_bytes: int
    time_ns: int
    plan_path: str | None


class HorizonBounds(Strict):
    optimum_ns: int | None
    optimum_by: str | None
    lower_bound_ns: int | None
    lower_bound_by: str | None


class HorizonProvenance(Strict):
    source: str
    generator: str
    seed: int | None
    created_by: str
    notes: str


class HorizonShow(Strict):
    name: str
    steps: int
    layers: int
    experts: int
    tokens: list[int]
    activated: int
    residents: int
    slots: int
    lookahead: int
    tier: Literal["ram", "disk"]
    host_computes: bool
    expert_bytes: list[int]
    link_bytes_per_s: int
    costs_source: str
    predicted_by: str | None
    history_steps: int
    bounds: HorizonBounds
    provenance: HorizonProvenance
    sha256: str
