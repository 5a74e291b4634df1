"""Which row makes way, against a search row by row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prescope.runtime.control.pool import Key, RowPool
from prescope.runtime.control.residency import make_residency

LAYERS, EXPERTS = 3, 5


def searched(pool: RowPool, layer: int, scores: np.ndarray, barred: set[Key], below: float) -> int | None:
    """The same, row by row."""
    quota = pool.residency.quota(len(pool))
    own_only = quota is not None and len(pool.experts_of(layer)) >= quota
    best, best_score = None, below
    for row in range(len(pool)):
        key = pool.owner(row)
        if key is None:
            if not own_only:
                return row
            continue
        if key in barred or (own_only and key[0] != layer):
            continue
        if scores[key] < best_score:
            best, best_score = row, float(scores[key])
    return best


keys = st.tuples(st.integers(0, LAYERS - 1), st.integers(0, EXPERTS - 1))


@given(
    rows=st.integers(1, 8),
    rule=st.sampled_from(["lru", "layer-lru"]),
    held=st.lists(keys, max_size=12, unique=True),
    barred=st.sets(keys, max_size=6),
    layer=st.integers(0, LAYERS - 1),
    below=st.sampled_from([np.inf, 0.0, 2.5]),
    seed=st.integers(0, 1000),
)
def test_victim_is_the_one_found_row_by_row(
    rows: int, rule: str, held: list[Key], barred: set[Key], layer: int, below: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    pool = RowPool(rows, make_residency(rule, np.ones((LAYERS, EXPERTS)), rows=rows, scratch=1))
    for key in held:
        pool.put(int(rng.integers(rows)), key)
    # Few values, so that ties are common.
    scores = rng.integers(0, 5, (LAYERS, EXPERTS)).astype(np.float64)
    assert pool.victim(layer, scores, barred, below=below) == searched(pool, layer, scores, barred, below)


def test_forgotten_rows_are_empty_again() -> None:
    pool = RowPool(2, make_residency("lru", np.ones((LAYERS, EXPERTS)), rows=2, scratch=1))
    pool.put(0, (0, 0))
    pool.put(1, (0, 1))
    pool.forget()
    assert pool.victim(0, np.zeros((LAYERS, EXPERTS)), set()) == 0
