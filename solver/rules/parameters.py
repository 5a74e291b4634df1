"""Checks of the rules' parameters."""

from __future__ import annotations

from prescope.formulation.checks import require_finite


def require_positive(name: str, value: float) -> None:
    """Refuse anything but a finite number above zero."""
    require_finite(name, value, 0.0)
    if value == 0:
        raise ValueError(f"expected {name} > 0, got {value}")


def require_share(name: str, value: float) -> None:
    """Refuse anything but a finite number in [0, 1]."""
    require_finite(name, value, 0.0)
    if value > 1:
        raise ValueError(f"expected {name} in [0, 1], got {value}")
