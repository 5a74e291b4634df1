"""Forecasts that take time: the newest finished ones serve, each is made once, by whoever needs it first."""

import numpy as np
import pytest

from prescope.formulation.forecast import Forecast
from prescope.runtime.control.prediction_lane import PredictionLane


def lane(reach=3, layers=6):
    asked = []

    def forecast(source, horizon):
        asked.append((source, horizon))
        value = np.array([10.0 * source + horizon])
        return Forecast(expected_tokens=value + 100, probability=np.array([0.5]))

    return PredictionLane(forecast, layers=layers, experts=1, reach=reach), asked


def said(forecasts):
    return [float(forecast.expected_tokens[0]) - 100 for forecast in forecasts]


def test_what_is_not_finished_is_not_known():
    known, asked = lane()
    known.now(-1)
    assert said(known.at(-1, 0)) == [-9, -8, -7]
    known.announce(0, ready_ns=50)
    # At the next gate the start's forecasts still serve, which reach one layer less far.
    assert said(known.at(0, 10)) == [-8, -7]
    assert said(known.at(1, 49)) == [-7]
    assert said(known.at(1, 50)) == [2, 3]
    assert asked == [(-1, 1), (-1, 2), (-1, 3), (0, 1), (0, 2), (0, 3)]


def test_work_done_ahead_is_not_done_again():
    known, asked = lane()
    known.now(-1)
    known.at(-1, 0)
    work = known.announce(0, ready_ns=5)
    work()
    work()
    assert asked.count((0, 1)) == 1
    assert said(known.at(1, 9)) == [2, 3]
    assert asked.count((0, 1)) == 1


def test_what_newer_forecasts_have_replaced_is_never_made():
    known, asked = lane()
    known.now(-1)
    known.at(-1, 0)
    work = known.announce(0, ready_ns=5)
    known.now(1)
    known.at(1, 9)
    work()
    assert not [one for one in asked if one[0] == 0]


def test_the_last_layers_have_fewer_to_come():
    known, asked = lane(layers=3)
    known.now(1)
    assert said(known.at(1, 0)) == [11]
    known.now(2)
    assert known.at(2, 0) == ()


@pytest.mark.parametrize("experts", [1, 3])
def test_a_forecast_of_other_experts_is_refused(experts):
    few = Forecast(expected_tokens=np.ones(experts), probability=np.ones(experts))
    known = PredictionLane(lambda source, horizon: few, layers=4, experts=2, reach=2)
    with pytest.raises(ValueError, match=rf"expected a forecast of 2 experts for layer 0, got \({experts},"):
        known.at(-1, 0)
