"""What a forecast of one layer refuses."""

import numpy as np
import pytest

from prescope.formulation import Forecast


def test_amounts_become_floats():
    forecast = Forecast(expected_tokens=np.array([0, 3]), probability=[0, 1])
    assert forecast.expected_tokens.dtype == forecast.probability.dtype == np.float64


@pytest.mark.parametrize(
    ("expected_tokens", "probability", "message"),
    [
        ([1.0], [0.5, 0.5], r"expected two arrays of shape \[experts\], got \(1,\) and \(2,\)"),
        ([[1.0]], [[0.5]], r"expected two arrays of shape \[experts\], got \(1, 1\) and \(1, 1\)"),
        ([np.nan], [0.5], "expected finite expected_tokens >= 0 and probability in"),
        ([np.inf], [0.5], "expected finite expected_tokens >= 0 and probability in"),
        ([-1.0], [0.5], "expected finite expected_tokens >= 0 and probability in"),
        ([1.0], [np.nan], "expected finite expected_tokens >= 0 and probability in"),
        ([1.0], [1.5], "expected finite expected_tokens >= 0 and probability in"),
    ],
)
def test_refused(expected_tokens, probability, message):
    with pytest.raises(ValueError, match=message):
        Forecast(expected_tokens=expected_tokens, probability=probability)
