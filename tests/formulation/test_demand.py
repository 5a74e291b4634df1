"""Known and predicted demand: shapes, types, frozen arrays, equality and hashing."""

import numpy as np
import pytest

from prescope.formulation import Demand, PredictedDemand


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint16, np.uint64])
def test_counts_of_any_integer_type_become_int64(dtype):
    demand = Demand(counts=np.array([[0, 3], [1, 2]], dtype=dtype), batch_tokens=3)
    assert demand.counts.dtype == np.int64
    assert (demand.layers, demand.experts) == (2, 2)
    assert demand == Demand(counts=[[0, 3], [1, 2]], batch_tokens=3)


def test_counts_are_a_frozen_copy():
    given = np.array([[1]])
    demand = Demand(counts=given, batch_tokens=1)
    given[0, 0] = 0
    assert demand.counts[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        demand.counts[0, 0] = 0


@pytest.mark.parametrize(
    ("counts", "batch_tokens", "message"),
    [
        ([1, 2], 2, "expected counts of shape [layers, experts], both >= 1, got (2,)"),
        (5, 5, "expected counts of shape [layers, experts], both >= 1, got ()"),
        (np.zeros((2, 0), int), 2, "expected counts of shape [layers, experts], both >= 1, got (2, 0)"),
        (np.zeros((0, 2), int), 2, "expected counts of shape [layers, experts], both >= 1, got (0, 2)"),
        (np.zeros((1, 1, 1), int), 2, "expected counts of shape [layers, experts], both >= 1, got (1, 1, 1)"),
        ([[1.0]], 1, "expected integer counts, got dtype float64"),
        ([[float("nan")]], 1, "expected integer counts, got dtype float64"),
        ([[True]], 1, "expected integer counts, got dtype bool"),
        ([["1"]], 1, "expected integer counts, got dtype <U1"),
        ([[-1, 0]], 1, "expected counts in [0, batch_tokens=1], got values in [-1, 0]"),
        ([[0, 2]], 1, "expected counts in [0, batch_tokens=1], got values in [0, 2]"),
        ([[0]], -1, "expected batch_tokens in [0, inf], got -1"),
        ([[0]], 1.0, "expected batch_tokens to be an integer in [0, inf], got 1.0"),
    ],
)
def test_demand_refuses(counts, batch_tokens, message):
    with pytest.raises(ValueError) as refused:
        Demand(counts=counts, batch_tokens=batch_tokens)
    assert str(refused.value) == message


def test_counts_too_large_for_the_type_are_refused():
    with pytest.raises(ValueError, match="expected counts in"):
        Demand(counts=np.array([[2**63]], dtype=np.uint64), batch_tokens=1)


def test_demand_is_a_value():
    demand = Demand(counts=[[1, 2]], batch_tokens=2)
    same = Demand(counts=[[1, 2]], batch_tokens=2)
    assert demand == same and hash(demand) == hash(same)
    assert demand != Demand(counts=[[1], [2]], batch_tokens=2)
    assert demand != Demand(counts=[[1, 2]], batch_tokens=3)
    assert demand != "demand"


def predicted(probabilities, expected_tokens=None, **kwargs) -> PredictedDemand:
    expected_tokens = np.zeros_like(probabilities) if expected_tokens is None else expected_tokens
    return PredictedDemand(probabilities=probabilities, expected_tokens=expected_tokens, **kwargs)


def test_predictions_are_frozen_floats():
    prediction = predicted(np.array([[[0, 1]]]), np.array([[[0, 5]]]))
    assert prediction.horizons == 1
    for array in (prediction.probabilities, prediction.expected_tokens):
        assert array.dtype == np.float64
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -0.1])
@pytest.mark.parametrize("name", ["probabilities", "expected_tokens"])
def test_predictions_refuse_what_is_no_amount(name, bad):
    arrays = {"probabilities": np.zeros((1, 1, 2)), "expected_tokens": np.zeros((1, 1, 2))}
    arrays[name][0, 0, 1] = bad
    with pytest.raises(ValueError) as refused:
        PredictedDemand(**arrays)
    assert str(refused.value) == f"expected finite {name} >= 0, got NaN, infinity or a negative value"


@pytest.mark.parametrize(
    ("probabilities", "expected_tokens", "message"),
    [
        ([[0.5]], [[0.5]], "expected probabilities of shape [horizons, layers, experts], got (1, 1)"),
        (
            np.zeros((0, 1, 1)),
            np.zeros((0, 1, 1)),
            "expected probabilities of shape [horizons, layers, experts], got (0, 1, 1)",
        ),
        ([[[1.5]]], [[[1.5]]], "expected probabilities in [0, 1], got 1.5"),
        ([[[0.5]]], [[[1.0, 2.0]]], "expected equal shapes, got (1, 1, 1) and (1, 1, 2)"),
    ],
)
def test_predictions_refuse(probabilities, expected_tokens, message):
    with pytest.raises(ValueError) as refused:
        PredictedDemand(probabilities=probabilities, expected_tokens=expected_tokens)
    assert str(refused.value) == message


def test_predictions_are_values_and_zero_has_one_sign():
    prediction, negative = predicted(np.array([[[0.0]]])), predicted(np.array([[[-0.0]]]))
    assert prediction == negative and hash(prediction) == hash(negative)
    assert prediction != predicted(np.array([[[0.0]]]), source="other")
    assert prediction != predicted(np.array([[[0.5]]]))
    assert prediction != 1
