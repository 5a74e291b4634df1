"""Errors of this package."""


class SolverError(RuntimeError):
    """A solver broke: it refused its model, or its plan does not fit the instance. Never wrong input."""


class UnsuitableInstanceError(ValueError):
    """A method whose rule means nothing for the instance; planning it otherwise would mislead."""
