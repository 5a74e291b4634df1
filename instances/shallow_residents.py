"""Residents that favour shallow layers, the way Fate's cache does."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prescope.formulation.checks import require_int
from prescope.instances.residents import choose_residents


def favour_shallow(
    popularity: npt.ArrayLike, *, total: int, full_layers: int = 0
) -> tuple[tuple[int, ...], ...]:
    """Keep whole shallow layers resident and spread what is left evenly over the deeper ones.

    A reconstruction of the cache of Fate (arXiv 2502.12224), whose shallow layers are the hardest to predict:
    it keeps all experts of the first layers, and the deeper ones share the rest.

    Parameters
    ----------
    popularity
        Non-negative, finite, shape ``[layers, experts]``; only the order within a layer matters.
    total
        Resident experts of all layers together, at most ``layers * experts``.
    full_layers
        How many of the first layers keep all their experts, as far as ``total`` allows; 0 spreads evenly.

    Returns
    -------
    tuple of tuple of int
        Per layer, ascending: `Instance.residents`. Layers that share evenly differ by one expert at most, the
        shallower having more.

    Raises
    ------
    ValueError
        When an argument is out of range.
    """
    # An order of every layer's experts; also refuses a bad popularity.
    table = np.asarray(popularity, dtype=np.float64)
    choose_residents(table, count=0)
    layers, experts = table.shape
    require_int("total", total, 0, layers * experts)
    require_int("full_layers", full_layers, 0, layers)
    full = min(full_layers, total // experts)
    counts = np.zeros(layers, dtype=np.int64)
    counts[:full] = experts
    left, sharing = total - full * experts, layers - full
    if sharing:
        counts[full:] = left // sharing
        counts[full : full + left % sharing] += 1
    order = np.argsort(-table, axis=1, kind="stable")
    return tuple(
        tuple(sorted(row[:count])) for row, count in zip(order.tolist(), counts.tolist(), strict=True)
    )
