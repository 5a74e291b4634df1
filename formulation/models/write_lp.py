"""Linear models in the CPLEX LP format, which people can read as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prescope.formulation.models.linear_model import UNLIMITED, LinearModel

_PER_LINE = 8


def lp_text(model: LinearModel) -> str:
    """The model as text: whole numbers, times in nanoseconds, minimised."""
    return "\n".join(_lines(model)) + "\n"


def _lines(model: LinearModel) -> Iterator[str]:
    # A name may hold what ends a comment; letters, digits and a few signs do not.
    yield "\\ " + "".join(letter if letter.isalnum() or letter in "-_.@" else "_" for letter in model.name)
    yield "minimize"
    goal = [(int(cost), name) for cost, name in zip(model.objective, model.columns, strict=True) if cost]
    yield from _sum(" makespan:", goal)
    yield "subject to"
    starts, index, value = model.starts.tolist(), model.index.tolist(), model.value.tolist()
    for row, name in enumerate(model.rows):
        entries = range(starts[row], starts[row + 1])
        terms = [(value[entry], model.columns[index[entry]]) for entry in entries if value[entry]]
        # A row needs a term, though all of its numbers may be zero.
        terms = terms or [(0, model.columns[index[starts[row]]])]
        lower, upper = int(model.row_lower[row]), int(model.row_upper[row])
        if lower == upper:
            yield from _sum(f" {name}:", terms, f"= {lower}")
            continue
        if lower > -UNLIMITED:
            yield from _sum(f" {name}:", terms, f">= {lower}")
        if upper < UNLIMITED:
            suffix = "_upper" if lower > -UNLIMITED else ""
            yield from _sum(f" {name}{suffix}:", terms, f"<= {upper}")
    yield "bounds"
    for name, low, up in zip(model.columns, model.lower.tolist(), model.upper.tolist(), strict=True):
        yield f" {low} <= {name} <= {up}"
    whole = [name for name, integer in zip(model.columns, model.integer, strict=True) if integer]
    if whole:
        yield "general"
        for begin in range(0, len(whole), _PER_LINE):
            yield " " + " ".join(whole[begin : begin + _PER_LINE])
    yield "end"


def _sum(head: str, terms: Sequence[tuple[int, str]], tail: str = "") -> Iterator[str]:
    """A sum over as many lines as it needs: some readers limit their length."""
    parts = [f"{'-' if number < 0 else '+'} {abs(number)} {name}" for number, name in terms]
    lines = [" ".join(parts[begin : begin + _PER_LINE]) for begin in range(0, len(parts), _PER_LINE)]
    lines = [f"{head} {lines[0]}", *(f"   {line}" for line in lines[1:])] if lines else [head]
    lines[-1] = f"{lines[-1]} {tail}".rstrip()
    yield from lines
