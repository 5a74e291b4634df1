"""How a memory budget is divided, with the plug-in's own error; the rule is `prescope.instances.budget`'s."""

from __future__ import annotations

from prescope.instances import budget
from prescope.instances.budget import residents_of_budget
from prescope.runtime.plugin.moe_layers import AttachError

__all__ = ["divide_budget", "residents_of_budget"]


def divide_budget(
    budget_bytes: int, *, row_bytes: int, layers: int, experts: int, slots: int | None
) -> tuple[int, int]:
    """Number of residents and of slots that fit; see `prescope.instances.budget.divide_budget`.

    Raises
    ------
    AttachError
        When the budget is too small; the message names the least that works.
    """
    try:
        return budget.divide_budget(
            budget_bytes, row_bytes=row_bytes, layers=layers, experts=experts, slots=slots
        )
    except ValueError as error:
        raise AttachError(str(error)) from error
