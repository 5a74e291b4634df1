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


def same_json(left: Any, right: Any) -> bool:
    """Whether two documents are equal, types included: 1, 1.0 and true are three things."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field said twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
