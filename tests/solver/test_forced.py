"""Planning with a decision taken beforehand, against proofs and against planning freely."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_instances import make_instance, seeded

from prescope.formulation import makespan_ns
from prescope.solver import solve
from prescope.solver.forced import Force, replan
from prescope.solver.forced_bound import prove_forced


@pytest.mark.parametrize("seed", range(25))
def test_the_decision_holds_and_the_better_side_is_the_optimum(seed: int) -> None:
    instance = make_instance(seeded(seed), max_layers=3, max_experts=4, max_missing=4, predictions=True)
    free = solve(instance, method="cp-sat")
    layer = next((at for at in range(instance.layers) if instance.demand.counts[at].any()), None)
    if layer is None:
        return
    expert = int(instance.demand.counts[layer].nonzero()[0][0])
    times = []
    for on_device in (True, False):
        force = Force(layer=layer, expert=expert, on_device=on_device)
        found = replan(instance, force, effort=20_000)
        if found is None:
            possible = instance.host_computes
            if on_device:
                possible = instance.slots > 0 or expert in instance.residents[layer]
            assert not possible
            continue
        plan, time_ns = found
        assert makespan_ns(instance, plan) == time_ns
        assert (expert in plan.layers[layer].gpu) == on_device
        better, better_ns, bound_ns = prove_forced(instance, force, plan)
        assert (expert in better.layers[layer].gpu) == on_device
        assert bound_ns <= better_ns <= time_ns
        assert bound_ns >= free.lower_bound_ns
        times.append(better_ns)
    if free.lower_bound_ns == free.makespan_ns:
        assert min(times) == free.makespan_ns


@given(st.integers(0, 100_000))
@settings(max_examples=30, deadline=None)
def test_a_hint_that_obeys_is_never_made_worse(seed: int) -> None:
    instance = make_instance(seeded(seed), host=True)
    first = solve(instance, method="dp").plan
    assert first is not None
    for layer, entry in enumerate(first.layers):
        for expert in (*entry.gpu, *entry.cpu)[:1]:
            force = Force(layer=layer, expert=expert, on_device=expert in entry.gpu)
            found = replan(instance, force, hint=first, effort=1)
            assert found is not None and found[1] <= makespan_ns(instance, first)
    free = replan(instance, hint=first, effort=1)
    assert free is not None and free[1] <= makespan_ns(instance, first)


def test_an_expert_without_tokens_is_refused() -> None:
    instance = make_instance(seeded(0), host=True)
    with pytest.raises(ValueError, match="expert 99, which has none"):
        replan(instance, Force(layer=0, expert=99, on_device=False))
