"""Rules by which residents change from step to step, by name."""

from __future__ import annotations

STATIC = "static"
_RULES = ("learned", "moving-average", "lru", "lfu")


def retentions() -> tuple[str, ...]:
    """Names of the rules, ``"static"``, under which nobody moves, among them."""
    return (STATIC, *_RULES)


def parse_retention(text: str) -> tuple[str, str]:
    """Name of the rule, and the file of recorded routing to begin with or ``""``.

    Raises
    ------
    ValueError
        When it is none of `retentions` and not ``"learned:TRACE"``.
    """
    name, colon, trace = text.partition(":")
    if name not in retentions() or (colon and not (trace and name == "learned")):
        known = ", ".join(retentions())
        raise ValueError(f"expected a retention among {known} or learned:TRACE, got {text!r}")
    return name, trace
