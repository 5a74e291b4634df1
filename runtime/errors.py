"""What can go wrong between a plan and its trace."""

from __future__ import annotations


class PlanError(ValueError):
    """A plan, a wave or a program that must not be executed; raised before anything runs."""


class OrderError(RuntimeError):
    """Operations ran in an order that a correct program never allows."""


class SlotStateError(OrderError):
    """A slot was touched in a state that forbids it."""


class ContentError(OrderError):
    """A computation read other weights than those of its layer and expert."""


class ExecutionError(RuntimeError):
    """An operation failed; the cause is chained. The step is lost, `reset` makes the next one correct."""


class StallError(ExecutionError):
    """Nothing finished within the limit; the message lists what every stream was waiting for."""
