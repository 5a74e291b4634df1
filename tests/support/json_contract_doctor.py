"""The shape of the doctor's answer."""

from typing import Literal

from json_strict import Strict


class Finding(Strict):
    area: Literal["versions", "device", "memory", "processor", "disk", "costs"]
    name: str
    state: Literal["ok", "note", "degraded", "broken"]
    found: str
    effect: str
    remedy: str


class Doctor(Strict):
    broken: int
    degraded: int
    findings: list[Finding]
