"""The shapes of ``prescope compare`` in docs/json.md."""

from typing import Literal

from json_strict import Strict

OriginName = Literal["resident", "prefetched", "late prefetch", "on demand", "cpu", "unused copy"]


class MoveLine(Strict):
    before: OriginName
    after: OriginName
    experts: int


class MovedExpert(Strict):
    step: int
    layer: int
    expert: int
    before: OriginName
    after: OriginName


class PartChange(Strict):
    name: str
    before_ns: int
    after_ns: int


class LayerChange(Strict):
    layer: int
    before_ns: int
    after_ns: int
    moved: int


class StepChange(Strict):
    index: int
    before_ns: int
    after_ns: int
    moved: list[MovedExpert]
    copies_added: list[tuple[int, int]]
    copies_dropped: list[tuple[int, int]]
    copies_earlier: int
    copies_later: int


class Compare(Strict):
    before: str
    after: str
    slower: bool
    kind: Literal["steps"]
    schedules: tuple[str, str]
    before_ns: int
    after_ns: int
    ratio: float | None
    notices: list[str]
    moves: list[MoveLine]
    parts: list[PartChange]
    layers: list[LayerChange]
    steps: list[StepChange]


class GroupChange(Strict):
    set: str
    before: str
    after: str
    runs: int
    shorter: int
    longer: int
    ratio: float | None
    worst: float | None
    worst_instance: str
    lost: int
    gained: int
    before_plan_ns: int | None
    after_plan_ns: int | None


class CompareBench(Strict):
    before: str
    after: str
    slower: bool
    kind: Literal["bench"]
    ratio: float | None
    notices: list[str]
    groups: list[GroupChange]
