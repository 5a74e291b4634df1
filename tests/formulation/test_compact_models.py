"""The compact models: never above a proven optimum, and every form consistent with the others."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from cp_sat_judge import prove_optimum
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_instances import instances, make_instance, seeded

from prescope.formulation.models.compact_model import Form, compact_model
from prescope.formulation.models.copy_counts import (
    clip_counts,
    columns_of_counts,
    read_counts,
    schedule_counts,
)
from prescope.formulation.models.envelope import lower_envelope
from prescope.formulation.models.layer_functions import Tables, layer_functions
from prescope.formulation.workload import workload


def link_of(work) -> dict[str, int]:
    return {"lookahead": work.lookahead, "link_ready_ns": work.link_ready_ns}


def least_value(instance, tables: Tables) -> int:
    """The table model's optimum, by trying all numbers of copies."""
    work = workload(instance)
    functions = layer_functions(work, tables)
    every = itertools.product(*[range(one.least, one.most + 1) for one in functions])
    return min(schedule_counts(functions, counts, **link_of(work))[0][-1] for counts in every)


def test_no_proven_optimum_is_below_the_model() -> None:
    tight = 0
    for seed in range(120):
        instance = make_instance(
            seeded(seed), max_layers=4, max_experts=4, max_missing=6, predictions=seed % 4 == 0
        )
        optimum = prove_optimum(instance).makespan_ns
        value = least_value(instance, Tables.BOUND)
        assert value <= optimum, seed
        tight += value == optimum
    assert tight > 95


def test_the_model_is_exact_where_nothing_is_relaxed() -> None:
    """Slots enough and equal device times: the table form is the problem."""
    for seed in range(60):
        instance = make_instance(seeded(seed), max_layers=4, max_experts=4, max_missing=6)
        curves = instance.costs.gpu[:1]
        equal = replace(curves[0], per_token_ns=0.0) if hasattr(curves[0], "per_token_ns") else None
        if equal is None:
            continue
        instance = replace(instance, costs=replace(instance.costs, gpu=(equal,)), slots=8)
        assert least_value(instance, Tables.BOUND) == prove_optimum(instance).makespan_ns, seed


@settings(max_examples=150, deadline=None)
@given(instance=instances(), data=st.data())
def test_counts_solve_both_forms_and_are_read_back(instance, data) -> None:
    work = workload(instance)
    tables = data.draw(st.sampled_from(list(Tables)))
    functions = layer_functions(work, tables)
    counts = clip_counts(functions, [data.draw(st.integers(0, 6)) for _ in functions])
    extra = data.draw(st.integers(0, 2))
    value = schedule_counts(functions, counts, **link_of(work))[0][-1]
    for form in Form:
        model = compact_model(
            functions,
            form=form,
            horizon_ns=value,
            width=[one.most + extra for one in functions],
            **link_of(work),
        )
        x = columns_of_counts(model, functions, counts, **link_of(work))
        assert model.linear.violation(x) == 0
        assert int(model.linear.objective @ x) == value
        assert read_counts(model, x) == counts
        x[model.starts[-1]] -= 1
        assert model.linear.violation(x) > 0, "the least starts leave no room"


@given(values=st.lists(st.integers(-50, 50), min_size=1, max_size=9), first=st.integers(0, 3))
def test_the_envelope_is_the_largest_convex_function_below(values: list[int], first: int) -> None:
    lines = lower_envelope(np.array(values), first)
    slopes = [rise / run for run, rise, _ in lines]
    assert slopes == sorted(slopes)
    touched = 0
    for x, y in enumerate(values, start=first):
        heights = [(rise * x + offset, run) for run, rise, offset in lines]
        assert all(height <= run * y for height, run in heights)
        touched += any(height == run * y for height, run in heights)
    assert touched >= min(2, len(values))


def test_a_model_without_room_is_refused() -> None:
    work = workload(make_instance(seeded(3), max_layers=3, max_experts=5, host=True))
    functions = layer_functions(work, Tables.BOUND)
    layer = max(range(len(functions)), key=lambda at: functions[at].most)
    width = [one.most for one in functions]
    width[layer] -= 1
    with pytest.raises(ValueError, match="expected width >= "):
        compact_model(functions, form=Form.TABLE, horizon_ns=10**6, width=width, **link_of(work))
