"""Why a plan cannot be carried out."""

from __future__ import annotations

from enum import StrEnum


class InfeasibleReason(StrEnum):
    """The rule that a plan breaks."""

    LAYER_COUNT = "layer count"
    UNKNOWN_LAYER = "unknown layer"
    UNKNOWN_EXPERT = "unknown expert"
    COMPUTED_TWICE = "expert computed twice"
    NOT_ACTIVATED = "expert without tokens"
    MISSING_DEVICE = "missing device"
    MISSING_TRANSFER = "missing transfer"
    TRANSFERRED_TWICE = "transferred twice"
    RESIDENT_TRANSFERRED = "resident transferred"
    TRANSFER_TOO_EARLY = "transfer too early"
    SLOT_OVERFLOW = "slot overflow"
    TRANSFER_AFTER_USE = "transfer after use"


class InfeasiblePlanError(ValueError):
    """A plan that does not fit its instance.

    Parameters
    ----------
    reason
        The rule broken.
    detail
        What was expected, what was got and where.

    Attributes
    ----------
    reason
        As given.
    """

    def __init__(self, reason: InfeasibleReason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
