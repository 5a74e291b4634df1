"""The shapes of `prescope explain`."""

from typing import Literal

from json_strict import Strict

PlaceName = Literal["resident", "prefetched", "on demand", "cpu"]


class ExpertFactsShape(Strict):
    layer: int
    expert: int
    tokens: int
    place: PlaceName
    resident: bool
    gate_ns: int
    layer_end_ns: int
    start_ns: int
    end_ns: int
    cpu_ns: int | None
    gpu_ns: int
    copy_ns: int
    copy_start_ns: int | None
    copy_end_ns: int | None
    waited_ns: int
    early_ns: int | None
    lane_slack_ns: int


class AlternativeShape(Strict):
    place: PlaceName
    chosen: bool
    fixed_ns: int | None
    replanned_ns: int | None
    bound_ns: int | None


class ResidencyShape(Strict):
    resident: bool
    with_ns: int
    without_ns: int | None


class PricesShape(Strict):
    layer: int
    lead_ns: int
    link_time: float
    free_ns: int
    faster_link_ns: int
    slot_ns: int
    lost_slot_ns: int | None


class BreakEvenShape(Strict):
    lever: Literal["tokens", "link bytes/s", "host speed"]
    now: float
    device_from: float | None
    host_from: float | None
    low: float
    high: float


class LayerFactsShape(Strict):
    layer: int
    start_ns: int
    gate_ns: int
    end_ns: int
    device_ns: int
    host_ns: int
    waited_ns: int
    ideal_ns: int
    limit: Literal[
        "the device, computing",
        "the device, waiting for copies",
        "the host",
        "nothing but its dense part",
    ]
    counts: list[tuple[PlaceName, int]]
    duration_ns: int
    lost_ns: int


class CostlyLayerShape(LayerFactsShape):
    link_time: float


class Head(Strict):
    plan: str
    step: int | None
    instance: str
    method: str
    makespan_ns: int
    sentences: list[str]


class ExplainExpert(Head):
    kind: Literal["expert"]
    facts: ExpertFactsShape
    alternatives: list[AlternativeShape]
    residency: ResidencyShape
    prices: PricesShape
    break_evens: list[BreakEvenShape]


class ExplainLayer(Head):
    kind: Literal["layer"]
    facts: LayerFactsShape
    experts: list[ExpertFactsShape]
    prices: PricesShape


class ExplainPlan(Head):
    kind: Literal["plan"]
    ideal_ns: int
    layers: list[CostlyLayerShape]
