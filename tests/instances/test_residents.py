"""Choosing residents."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.instances import choose_residents


@given(st.integers(1, 5), st.integers(1, 12), st.data())
def test_no_expert_left_out_is_more_popular(layers: int, experts: int, data: st.DataObject) -> None:
    rows = st.lists(st.integers(0, 4), min_size=experts, max_size=experts)
    popularity = np.array(data.draw(st.lists(rows, min_size=layers, max_size=layers)))
    count = data.draw(st.integers(0, experts))
    chosen = choose_residents(popularity, count=count)
    for layer, row in enumerate(chosen):
        assert row == tuple(sorted(set(row))) and len(row) == count
        left = [expert for expert in range(experts) if expert not in row]
        if row and left:
            worst = max(row, key=lambda expert: (-popularity[layer, expert], expert))
            best = min(left, key=lambda expert: (-popularity[layer, expert], expert))
            assert (-popularity[layer, worst], worst) < (-popularity[layer, best], best)


def test_fraction_is_rounded_down_but_not_by_float_error() -> None:
    assert len(choose_residents(np.ones((1, 100)), fraction=0.29)[0]) == 29
    assert len(choose_residents(np.ones((1, 7)), fraction=0.5)[0]) == 3
    assert choose_residents(np.ones((2, 3)), fraction=1) == ((0, 1, 2), (0, 1, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either fraction or count"),
        ({"fraction": 0.5, "count": 1}, "either fraction or count"),
        ({"fraction": 1.5}, r"fraction in \[0, 1\]"),
        ({"fraction": float("nan")}, "finite"),
        ({"count": 4}, r"count in \[0, 3\]"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_residents(np.ones((1, 3)), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("popularity", [np.ones(3), [[1.0, float("nan")]], [[-1.0, 2.0]], np.ones((0, 3))])
def test_wrong_popularity_is_refused(popularity: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        choose_residents(popularity, count=1)  # type: ignore[arg-type]
