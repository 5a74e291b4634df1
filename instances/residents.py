"""Which experts stay pinned on the device, chosen by popularity."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prescope.formulation.checks import require_finite, require_int

# A fraction such as 0.29 of 100 experts must mean 29 although the product is 28.999999999999996.
_ROUNDING = 1e-9


def choose_residents(
    popularity: npt.ArrayLike, *, fraction: float | None = None, count: int | None = None
) -> tuple[tuple[int, ...], ...]:
    """Choose the most popular experts of each layer; of equally popular ones the lower index.

    Parameters
    ----------
    popularity
        Non-negative, finite, shape ``[layers, experts]``; only the order matters.
    fraction
        Share of each layer's experts in [0, 1], rounded down.
    count
        Experts per layer; exactly one of ``fraction`` and ``count`` is given.

    Returns
    -------
    tuple of tuple of int
        Per layer, ascending: `Instance.residents`.

    Raises
    ------
    ValueError
        When an argument is out of range.
    """
    table = np.asarray(popularity, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"expected popularity of shape [layers, experts], both >= 1, got {table.shape}")
    if not np.isfinite(table).all() or table.min() < 0:
        raise ValueError("expected finite popularity >= 0, got NaN, infinity or a negative value")
    experts = int(table.shape[1])
    if (fraction is None) == (count is None):
        raise ValueError(f"expected either fraction or count, got fraction={fraction} and count={count}")
    if fraction is not None:
        require_finite("fraction", fraction, 0.0)
        if fraction > 1:
            raise ValueError(f"expected fraction in [0, 1], got {fraction}")
        count = int(fraction * experts + _ROUNDING)
    require_int("count", count, 0, experts)
    order = np.argsort(-table, axis=1, kind="stable")[:, :count]
    return tuple(tuple(sorted(row)) for row in order.tolist())
