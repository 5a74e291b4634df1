"""An independent strict reader of JSON: standard library only, fields once, no NaN, types kept apart."""

from __future__ import annotations

import json
from typing import Any


def strict_json(data: bytes) -> Any:
    """The document as plain values; ``ValueError`` for anything ambiguous."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def same_json(left: Any, right: Any, *, numbers: bool = False) -> bool:
    """Whether two documents are equal, types included: 1, 1.0 and true are three things.

    ``numbers`` takes 1 and 1.0 as the same number.
    """
    both = {type(left), type(right)}
    if len(both) > 1 and not (numbers and both == {int, float}):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(
            same_json(left[key], right[key], numbers=numbers) for key in left
        )
    if isinstance(left, list):
        pairs = zip(left, right, strict=True) if len(left) == len(right) else [(0, 1)]
        return all(same_json(one, other, numbers=numbers) for one, other in pairs)
    return bool(left == right)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field said twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
