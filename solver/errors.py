"""Errors of this package."""


class SolverError(RuntimeError):
    """A solver broke: it refused its model, or its plan does not fit the instance. Never wrong input."""
