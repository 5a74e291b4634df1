"""Solutions of the compact models: from numbers of copies to all columns and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.models.compact_model import CompactModel, Form
from prescope.formulation.models.layer_functions import LayerFunctions


def clip_counts(functions: Sequence[LayerFunctions], counts: Sequence[int]) -> list[int]:
    """Numbers of copies moved into what the model allows."""
    return [min(max(count, one.least), one.most) for one, count in zip(functions, counts, strict=True)]


def schedule_counts(
    functions: Sequence[LayerFunctions], counts: Sequence[int], *, lookahead: int, link_ready_ns: int
) -> tuple[list[int], list[int], list[int]]:
    """The least ``T``, ``F`` and ``C`` of given numbers of copies, in the table form.

    They satisfy the fluid form as well. ``T[L]`` is the model's value of the counts.
    """
    starts: list[int] = [0]
    landed: list[int] = []
    carried: list[int] = []
    for layer, (one, copies) in enumerate(zip(functions, counts, strict=True)):
        link = copies * one.copy_ns
        free = max(carried[-1] if layer > 0 else link_ready_ns, 0)
        if layer >= lookahead:
            free = max(free, starts[layer - lookahead] + functions[layer - lookahead].dense_ns)
        landed.append(free + link)
        work = starts[layer] + int(one.table_ns[copies])
        starts.append(max(work, landed[-1] + int(one.tail_ns[copies])))
        opened = starts[layer] + int(one.opened_ns[copies])
        carried.append(max(landed[-1] + int(one.carry_ns[copies]), opened))
    return starts, landed, carried


def columns_of_counts(
    model: CompactModel,
    functions: Sequence[LayerFunctions],
    counts: Sequence[int],
    *,
    lookahead: int,
    link_ready_ns: int,
) -> IntArray:
    """A solution of the model with these numbers of copies, int64 ``[n]``."""
    x = np.zeros(len(model.linear.columns), dtype=np.int64)
    starts, landed, carried = schedule_counts(
        functions, counts, lookahead=lookahead, link_ready_ns=link_ready_ns
    )
    x[list(model.starts)] = starts
    x[list(model.landed)] = landed
    x[list(model.carried)] = carried
    for columns, count in zip(model.copies, counts, strict=True):
        if model.form is Form.TABLE:
            x[columns[count]] = 1
        else:
            x[columns[0]] = count
    return x


def read_counts(model: CompactModel, x: FloatArray | IntArray) -> list[int]:
    """Numbers of copies in a solution; fractions are rounded to the nearest whole number."""
    counts = []
    for columns in model.copies:
        values = x[columns.start : columns.stop]
        whole = (values * np.arange(len(values))).sum() if model.form is Form.TABLE else values[0]
        counts.append(round(float(whole)))
    return counts
