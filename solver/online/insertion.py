"""Experts kept in order as they are found."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import IntArray


@numba.njit(cache=True)
def insert(ordered: IntArray, length: int, expert: int, key: npt.NDArray[np.generic], sign: int) -> None:
    """Insert behind all that are not after it, so that equal experts keep their ascending ids.

    Parameters
    ----------
    ordered
        Experts in order, int64, with room for one more behind the first ``length``.
    length
        How many are there.
    expert
        The one to insert.
    key
        What orders them, by expert.
    sign
        1 for least first, -1 for greatest first.
    """
    value = sign * key[expert]
    place = length
    while place > 0 and sign * key[ordered[place - 1]] > value:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place] = expert
