"""Cells and facts as text: names carry their unit."""

from __future__ import annotations

from prescope.formulation import format_bytes, format_ns
from prescope.inspection.view import Fact

_UNITS = ("_ns", "_bytes", "_share")


def words(name: str) -> str:
    """A name without its unit, in words."""
    for unit in _UNITS:
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def readable(name: str, value: Fact) -> str:
    """A value in the unit that its name carries; ``-`` for nothing."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if name.endswith("_ns"):
        return format_ns(round(value))
    if name.endswith("_bytes"):
        return format_bytes(round(value))
    if name.endswith("_share") or name == "gap":
        return f"{value:.3%}" if abs(value) < 0.1 else f"{value:.1%}"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
