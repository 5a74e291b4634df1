"""Durations against tokens: exact values by rational arithmetic, and what the curves refuse."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.formulation import LinearTime, TableTime


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(1, 10**5))
def test_linear_time_is_exact_for_whole_nanoseconds(fixed, per_token, tokens):
    assert LinearTime(fixed_ns=fixed, per_token_ns=per_token)(tokens) == fixed + per_token * tokens


@given(st.integers(0, 10**9), st.floats(0, 1e6), st.integers(1, 10**5))
def test_linear_time_rounds_to_the_nearest(fixed, per_token, tokens):
    exact = fixed + Fraction(per_token) * tokens
    assert abs(LinearTime(fixed_ns=fixed, per_token_ns=per_token)(tokens) - exact) <= Fraction(1, 2) + (
        exact * Fraction(1, 2**50)
    )


@pytest.mark.parametrize(
    "curve", [LinearTime(fixed_ns=7, per_token_ns=2), TableTime(tokens=(1,), times_ns=(7,))]
)
@pytest.mark.parametrize("tokens", [0, -1])
def test_no_tokens_cost_nothing(curve, tokens):
    assert curve(tokens) == 0


TABLE = TableTime(tokens=(2, 4, 10), times_ns=(10, 20, 80))


@pytest.mark.parametrize(
    ("tokens", "expected_ns"),
    [
        (1, 10),  # below the first point its value holds
        (2, 10),
        (3, 15),
        (4, 20),
        (5, 30),
        (10, 80),
        (11, 90),  # beyond the last the last slope goes on
        (20, 180),
    ],
)
def test_table_by_hand(tokens, expected_ns):
    assert TABLE(tokens) == expected_ns


def test_table_of_one_point_is_flat():
    assert {TableTime(tokens=(3,), times_ns=(5,))(n) for n in (1, 3, 100)} == {5}


def test_falling_table_never_goes_below_zero():
    falling = TableTime(tokens=(1, 2), times_ns=(10, 4))
    assert [falling(n) for n in (1, 2, 3, 4)] == [10, 4, 0, 0]


tables = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 10**6)), min_size=1, max_size=5, unique_by=lambda p: p[0]
).map(
    lambda points: TableTime(tokens=tuple(sorted(t for t, _ in points)), times_ns=tuple(v for _, v in points))
)


@given(tables, st.integers(1, 80))
def test_table_interpolates_exactly(table, tokens):
    points = list(zip(table.tokens, table.times_ns, strict=True))
    if len(points) == 1 or tokens <= points[0][0]:
        expected = Fraction(points[0][1])
    else:
        inside = [pair for pair in zip(points, points[1:], strict=False) if tokens <= pair[1][0]]
        (x0, y0), (x1, y1) = inside[0] if inside else (points[-2], points[-1])
        expected = y0 + Fraction((y1 - y0) * (tokens - x0), x1 - x0)
    assert abs(table(tokens) - max(expected, Fraction(0))) <= Fraction(1, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fixed_ns": -1}, "expected fixed_ns in [0, inf], got -1"),
        ({"fixed_ns": 1.5}, "expected fixed_ns to be an integer in [0, inf], got 1.5"),
        ({"fixed_ns": True}, "expected fixed_ns to be an integer in [0, inf], got True"),
        ({"fixed_ns": "3"}, "expected fixed_ns to be an integer in [0, inf], got '3'"),
        ({"fixed_ns": 0, "per_token_ns": -0.5}, "expected per_token_ns to be finite and >= 0.0, got -0.5"),
        ({"fixed_ns": 0, "per_token_ns": math.nan}, "expected per_token_ns to be finite and >= 0.0, got nan"),
        ({"fixed_ns": 0, "per_token_ns": math.inf}, "expected per_token_ns to be finite and >= 0.0, got inf"),
        ({"fixed_ns": 0, "per_token_ns": None}, "expected per_token_ns to be a number >= 0.0, got None"),
    ],
)
def test_linear_time_refuses(arguments, message):
    with pytest.raises(ValueError) as refused:
        LinearTime(**arguments)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("tokens", "times_ns", "message"),
    [
        ((), (), "expected as many times_ns as tokens and at least one, got 0 tokens and 0 times"),
        ((1, 2), (1,), "expected as many times_ns as tokens and at least one, got 2 tokens and 1 times"),
        ((0,), (1,), "expected tokens in [1, inf], got 0"),
        ((2, 2), (1, 1), "expected tokens in [3, inf], got 2"),
        ((3, 1), (1, 1), "expected tokens in [4, inf], got 1"),
        ((1.0,), (1,), "expected tokens to be an integer in [1, inf], got 1.0"),
        ((1,), (-1,), "expected times_ns in [0, inf], got -1"),
        ((1,), (0.5,), "expected times_ns to be an integer in [0, inf], got 0.5"),
    ],
)
def test_table_time_refuses(tokens, times_ns, message):
    with pytest.raises(ValueError) as refused:
        TableTime(tokens=tokens, times_ns=times_ns)
    assert str(refused.value) == message


def test_curves_are_values():
    assert LinearTime(fixed_ns=1, per_token_ns=2) == LinearTime(fixed_ns=1, per_token_ns=2.0)
    assert hash(TableTime(tokens=[1, 2], times_ns=[3, 4])) == hash(TableTime(tokens=(1, 2), times_ns=(3, 4)))
    assert LinearTime(fixed_ns=1) != TableTime(tokens=(1,), times_ns=(1,))
    with pytest.raises(AttributeError):
        LinearTime(fixed_ns=1).fixed_ns = 2
