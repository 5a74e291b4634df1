"""A better plan takes the best one's place; anything else is refused and changes nothing."""

from pathlib import Path

import pytest
from stored_instance import HOST, INSTANCE, store_instance

from prescope.formulation import InfeasiblePlanError, LayerPlan, Plan, PlanInfo, makespan_ns
from prescope.instances import (
    list_library,
    load_library_instance,
    load_library_plan,
    update_best,
    verify_library,
    write_index,
)


def better() -> Plan:
    """As the host's plan, but residents run on the device."""
    layers = []
    for layer, row in enumerate(INSTANCE.demand.counts):
        active = row.nonzero()[0].tolist()
        gpu = tuple(expert for expert in active if expert in INSTANCE.residents[layer])
        layers.append(LayerPlan(gpu=gpu, cpu=tuple(expert for expert in active if expert not in gpu)))
    return Plan(layers=tuple(layers), info=PlanInfo(method="mine", time_ns=5, makespan_ns=1))


def library(root: Path, lower_bound_ns: int) -> Path:
    write_index(root, [store_instance(root, "set", INSTANCE, HOST, lower_bound_ns=lower_bound_ns)])
    return root


@pytest.mark.parametrize("tight", [False, True])
def test_a_shorter_plan_is_stored_with_its_proof(tmp_path: Path, tight: bool) -> None:
    cost_ns = makespan_ns(INSTANCE, better())
    root = library(tmp_path, cost_ns if tight else 1000)
    entry = update_best("one", better(), root)
    assert (entry.best_ns, entry.best_by) == (cost_ns, "mine")
    assert list_library(root) == [entry] and verify_library(root) == ()
    info = load_library_plan("one", root).plan.info
    assert (info.makespan_ns, info.time_ns) == (cost_ns, None)
    bounds = load_library_instance("one", root).bounds
    assert bounds.optimum_ns == (cost_ns if tight else None)
    assert not tight or bounds.optimum_by == "mine reaches the bound of test"


def test_what_is_not_better_is_refused(tmp_path: Path) -> None:
    cost_ns = makespan_ns(INSTANCE, better())
    root = library(tmp_path, cost_ns + 1)
    before = list_library(root)
    with pytest.raises(ValueError, match="the bound is not valid"):
        update_best("one", better(), root)
    with pytest.raises(ValueError, match="expected a plan of one shorter than"):
        update_best("one", HOST, root)
    with pytest.raises(InfeasiblePlanError):
        update_best("one", Plan(layers=()), root)
    with pytest.raises(ValueError, match="name of a library instance, got 'two'"):
        update_best("two", better(), root)
    assert list_library(root) == before and verify_library(root) == ()
