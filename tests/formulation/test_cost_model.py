"""Costs layer by layer, and what a link and a cost model refuse."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.formulation import CostModel, LinearTime, Link

ONE, TWO = LinearTime(fixed_ns=1), LinearTime(fixed_ns=2, per_token_ns=10)
LINK = Link(bytes_per_s=10**9)


def model(**changes) -> CostModel:
    given = {"expert_bytes": (3, 5), "link": LINK, "gpu": (ONE,), "cpu": (TWO,), "dense": (ONE, TWO)}
    return CostModel(**(given | changes))


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.integers(0, 10**7))
def test_a_copy_takes_latency_and_bytes_over_bandwidth_rounded_up(size, bandwidth, latency):
    link = Link(bytes_per_s=bandwidth, latency_ns=latency)
    assert link.copy_ns(size) == latency + ceil(Fraction(size * 10**9, bandwidth))
    assert link.copy_ns(size) > latency


def test_one_curve_serves_all_layers_or_each_has_its_own():
    costs = model()
    assert costs.layers == 2
    assert [costs.copy_ns(layer) for layer in range(2)] == [3, 5]
    assert [costs.gpu_ns(layer, 4) for layer in range(2)] == [1, 1]
    assert [costs.cpu_ns(layer, 4) for layer in range(2)] == [42, 42]
    assert [costs.dense_ns(layer, 4) for layer in range(2)] == [1, 42]
    assert [costs.dense_ns(layer, 0) for layer in range(2)] == [0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expert_bytes": ()}, "expected expert_bytes for at least one layer, got none"),
        ({"expert_bytes": (3, 0)}, "expected expert_bytes in [1, inf], got 0"),
        ({"expert_bytes": (3, 4.5)}, "expected expert_bytes to be an integer in [1, inf], got 4.5"),
        ({"gpu": ()}, "expected 1 or 2 curves for gpu, got 0"),
        ({"cpu": (ONE,) * 3}, "expected 1 or 2 curves for cpu, got 3"),
        ({"dense": (ONE, 5.0)}, "expected dense to hold time curves, got float"),
    ],
)
def test_cost_model_refuses(changes, message):
    with pytest.raises(ValueError) as refused:
        model(**changes)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bytes_per_s": 0}, "expected bytes_per_s in [1, inf], got 0"),
        ({"bytes_per_s": 12e9}, "expected bytes_per_s to be an integer in [1, inf], got 12000000000.0"),
        ({"bytes_per_s": 1, "latency_ns": -1}, "expected latency_ns in [0, inf], got -1"),
        (
            {"bytes_per_s": 1, "latency_ns": None},
            "expected latency_ns to be an integer in [0, inf], got None",
        ),
    ],
)
def test_link_refuses(arguments, message):
    with pytest.raises(ValueError) as refused:
        Link(**arguments)
    assert str(refused.value) == message


def test_cost_models_are_values_even_from_lists():
    assert model(expert_bytes=[3, 5], gpu=[ONE]) == model()
    assert hash(model(expert_bytes=[3, 5], gpu=[ONE])) == hash(model())
    assert model(source="measured") != model()
    with pytest.raises(TypeError):
        CostModel((1,), LINK, (ONE,), (ONE,), (ONE,))
