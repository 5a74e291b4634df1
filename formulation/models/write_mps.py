"""Linear models as free-format MPS, which every MILP solver reads."""

from __future__ import annotations

from collections.abc import Iterator

from prescope.formulation.models.linear_model import UNLIMITED, LinearModel


def mps_text(model: LinearModel) -> str:
    """The model as text: whole numbers, times in nanoseconds, minimised."""
    return "\n".join(_lines(model)) + "\n"


def _lines(model: LinearModel) -> Iterator[str]:
    yield f"NAME {_name(model.name)}"
    yield "ROWS"
    yield " N makespan"
    kinds = [_kind(int(low), int(up)) for low, up in zip(model.row_lower, model.row_upper, strict=True)]
    for name, kind in zip(model.rows, kinds, strict=True):
        yield f" {kind} {name}"
    yield "COLUMNS"
    yield from _columns(model)
    yield "RHS"
    for name, kind, low, up in zip(model.rows, kinds, model.row_lower, model.row_upper, strict=True):
        limit = int(up) if kind == "L" else int(low)
        if kind != "N" and limit != 0:
            yield f" RHS {name} {limit}"
    ranges = [
        f" RANGES {name} {int(up) - int(low)}"
        for name, kind, low, up in zip(model.rows, kinds, model.row_lower, model.row_upper, strict=True)
        if kind == "G" and up < UNLIMITED
    ]
    if ranges:
        yield "RANGES"
        yield from ranges
    yield "BOUNDS"
    for name, low, up in zip(model.columns, model.lower.tolist(), model.upper.tolist(), strict=True):
        if low == up:
            yield f" FX BOUND {name} {low}"
            continue
        yield f" LO BOUND {name} {low}"
        yield f" UP BOUND {name} {up}"
    yield "ENDATA"


def _columns(model: LinearModel) -> Iterator[str]:
    entries: list[list[tuple[int, int]]] = [[] for _ in model.columns]
    starts, index, value = model.starts.tolist(), model.index.tolist(), model.value.tolist()
    for row in range(len(model.rows)):
        for entry in range(starts[row], starts[row + 1]):
            if value[entry]:
                entries[index[entry]].append((row, value[entry]))
    inside = False
    for column, name in enumerate(model.columns):
        if bool(model.integer[column]) != inside:
            inside = not inside
            yield f" MARKER 'MARKER' {chr(39)}INT{'ORG' if inside else 'END'}{chr(39)}"
        cost = int(model.objective[column])
        # Every column is declared, even one without entries.
        if cost or not entries[column]:
            yield f" {name} makespan {cost}"
        for row, number in entries[column]:
            yield f" {name} {model.rows[row]} {number}"
    if inside:
        yield " MARKER 'MARKER' 'INTEND'"


def _kind(lower: int, upper: int) -> str:
    if lower == upper:
        return "E"
    if lower > -UNLIMITED:
        return "G"
    return "L" if upper < UNLIMITED else "N"


def _name(name: str) -> str:
    """The instance's name without spaces, which would end it."""
    return "".join("_" if letter.isspace() else letter for letter in name) or "batch"
