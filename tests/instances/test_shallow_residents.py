"""Residents that favour shallow layers: all of the first ones, the rest spread evenly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.instances.residents import choose_residents
from prescope.instances.shallow_residents import favour_shallow


@given(data=st.data(), layers=st.integers(1, 6), experts=st.integers(1, 5), seed=st.integers(0, 99))
def test_memory_is_used_up_and_shallow_layers_come_first(data, layers, experts, seed):
    popularity = np.random.default_rng(seed).random((layers, experts))
    total = data.draw(st.integers(0, layers * experts))
    full = data.draw(st.integers(0, layers))
    residents = favour_shallow(popularity, total=total, full_layers=full)
    sizes = [len(row) for row in residents]
    assert sum(sizes) == total
    whole = min(full, total // experts)
    assert sizes[:whole] == [experts] * whole
    rest = sizes[whole:]
    assert rest == sorted(rest, reverse=True)
    assert not rest or rest[0] - rest[-1] <= 1
    for layer, row in enumerate(residents):
        others = set(range(experts)) - set(row)
        assert all(popularity[layer, a] >= popularity[layer, b] for a in row for b in others)


def test_without_favour_it_is_the_popular_ones_of_every_layer():
    popularity = np.random.default_rng(1).random((4, 6))
    assert favour_shallow(popularity, total=8) == choose_residents(popularity, count=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total": 13}, r"expected total in \[0, 12\], got 13"),
        ({"total": 2, "full_layers": 4}, r"expected full_layers in \[0, 3\], got 4"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        favour_shallow(np.ones((3, 4)), **change)


def test_a_bad_popularity_is_refused():
    with pytest.raises(ValueError, match="expected finite popularity"):
        favour_shallow(np.full((2, 2), np.nan), total=1)
