"""What an instance refuses, what it normalises, equality and hashing, and the cached arrays."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from tiny_instances import instances

from prescope.formulation import (
    CostModel,
    Demand,
    Instance,
    LinearTime,
    Link,
    PredictedDemand,
    TableTime,
    Tier,
    instance_arrays,
)
from prescope.formulation import arrays as arrays_module

ONE = (LinearTime(fixed_ns=1),)


def make(**changes) -> Instance:
    """Two layers of three experts."""
    given = {
        "name": "small",
        "costs": CostModel(expert_bytes=(1, 2), link=Link(bytes_per_s=10**9), gpu=ONE, cpu=ONE, dense=ONE),
        "demand": Demand(counts=[[1, 0, 2], [0, 0, 1]], batch_tokens=2),
        "residents": ((0,), ()),
        "slots": 1,
        "lookahead": 1,
    }
    return Instance(**(given | changes))


def test_shape_comes_from_the_demand():
    assert (make().layers, make().experts) == (2, 3)


def test_residents_are_sorted_and_may_come_from_numpy():
    instance = make(residents=[np.array([2, 0]), []])
    assert instance.residents == ((0, 2), ())
    assert all(type(expert) is int for row in instance.residents for expert in row)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": -1}, "expected slots in [0, inf], got -1"),
        ({"slots": 2.0}, "expected slots to be an integer in [0, inf], got 2.0"),
        ({"slots": None}, "expected slots to be an integer in [0, inf], got None"),
        ({"lookahead": -1}, "expected lookahead in [0, inf], got -1"),
        ({"link_ready_ns": -5}, "expected link_ready_ns in [0, inf], got -5"),
        ({"link_ready_ns": 0.5}, "expected link_ready_ns to be an integer in [0, inf], got 0.5"),
        ({"residents": ((0,),)}, "expected residents for 2 layers, got 1"),
        ({"residents": ((3,), ())}, "expected resident expert in [0, 2], got 3"),
        ({"residents": ((-1,), ())}, "expected resident expert in [0, 2], got -1"),
        ({"residents": ((1, 1), ())}, "expected distinct residents in a layer, got (1, 1)"),
        ({"residents": ((0.7,), ())}, "expected residents as integers, got (0.7,)"),
        ({"residents": (("a",), ())}, "expected residents as integers, got ('a',)"),
        ({"tier": "disk"}, "expected tier to be one of ram, disk, got 'disk'"),
        ({"tier": Tier.DISK}, "expected host_computes=False on the disk tier, got True"),
        (
            {"demand": Demand(counts=[[1]], batch_tokens=1)},
            "expected costs for 1 layers, got 2",
        ),
        (
            {"host_computes": False, "slots": 0},
            "expected slots >= 1 where the host cannot compute and an activated expert is missing, "
            "got slots=0 with layer 0 missing experts [2]",
        ),
        (
            {
                "predicted": PredictedDemand(
                    probabilities=np.zeros((1, 2, 2)), expected_tokens=np.zeros((1, 2, 2))
                )
            },
            "expected predictions of shape [horizons, 2, 3], got (2, 2)",
        ),
    ],
)
def test_instance_refuses(changes, message):
    with pytest.raises(ValueError) as refused:
        make(**changes)
    assert str(refused.value) == message


def test_no_slots_are_needed_where_all_activated_experts_are_resident():
    instance = make(tier=Tier.DISK, host_computes=False, slots=0, residents=((0, 2), (2,)))
    assert instance.slots == 0


def test_instances_are_values():
    assert make() == make() and hash(make()) == hash(make())
    for change in (
        {"name": "other"},
        {"slots": 2},
        {"lookahead": 0},
        {"link_ready_ns": 1},
        {"residents": ((), ())},
        {"demand": Demand(counts=[[1, 0, 2], [0, 0, 2]], batch_tokens=2)},
    ):
        assert make(**change) != make()
    with pytest.raises(AttributeError):
        make().slots = 2


@given(instances())
def test_arrays_are_the_costs_of_each_expert(instance):
    arrays, costs, counts = instance_arrays(instance), instance.costs, instance.demand.counts
    for layer in range(instance.layers):
        assert arrays.copy_ns[layer] == costs.copy_ns(layer)
        assert arrays.dense_ns[layer] == costs.dense_ns(layer, instance.demand.batch_tokens)
        for expert in range(instance.experts):
            tokens = int(counts[layer, expert])
            assert arrays.active[layer, expert] == (tokens > 0)
            assert arrays.resident[layer, expert] == (expert in instance.residents[layer])
            assert arrays.gpu_ns[layer, expert] == costs.gpu_ns(layer, tokens)
            assert arrays.cpu_ns[layer, expert] == costs.cpu_ns(layer, tokens)


def test_arrays_are_made_once_and_read_only():
    instance = make()
    arrays = instance_arrays(instance)
    assert instance_arrays(instance) is arrays
    assert instance_arrays(make()).gpu_ns.tolist() == arrays.gpu_ns.tolist()
    for name in ("copy_ns", "dense_ns", "gpu_ns", "cpu_ns", "active", "resident"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(arrays, name)[0] = 1


def test_a_changed_copy_has_its_own_arrays():
    instance = make()
    slower = replace(
        instance, costs=replace(instance.costs, gpu=(TableTime(tokens=(1, 2), times_ns=(5, 9)),))
    )
    assert instance_arrays(instance).gpu_ns.tolist() == [[1, 0, 1], [0, 0, 1]]
    assert instance_arrays(slower).gpu_ns.tolist() == [[5, 0, 9], [0, 0, 5]]


def test_the_cache_lets_go_of_dead_instances():
    instance = make(name="only here")
    arrays = weakref.ref(instance_arrays(instance).gpu_ns)
    before = len(arrays_module._cache)
    del instance
    gc.collect()
    assert arrays() is None
    assert len(arrays_module._cache) < before
