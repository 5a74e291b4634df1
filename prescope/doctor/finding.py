"""What was found in one place, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a part of the environment is."""

    OK = "ok"
    """As it should be."""
    NOTE = "note"
    """Not there, and nothing that works today needs it."""
    DEGRADED = "degraded"
    """It works, but slower or less exactly than it could."""
    BROKEN = "broken"
    """Something that prescope needs is missing or too old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the examination.

    Parameters
    ----------
    area
        What it belongs to: ``"versions"``, ``"device"``, ``"memory"``, ``"processor"``, ``"disk"`` or
        ``"costs"``.
    name
        What was looked at.
    state
        How it is.
    found
        What was found, in words.
    effect
        What that costs; empty when all is well.
    remedy
        What to do; empty when there is nothing to do.
    """

    area: str
    name: str
    state: State
    found: str
    effect: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        if self.state in (State.DEGRADED, State.BROKEN) and not (self.effect and self.remedy):
            raise ValueError(f"expected an effect and a remedy with state {self.state.value!r}, got none")
