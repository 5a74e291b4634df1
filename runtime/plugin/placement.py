"""How a memory budget is divided: which experts are pinned on the device, and how many slots remain."""

from __future__ import annotations

import numpy as np

from prescope.formulation import format_bytes
from prescope.formulation.demand import FloatArray
from prescope.runtime.plugin.moe_layers import AttachError

# More slots than this gain nothing that residents would not gain more.
_MOST_SLOTS = 48


def divide_budget(
    budget_bytes: int, *, row_bytes: int, layers: int, experts: int, slots: int | None
) -> tuple[int, int]:
    """Number of residents and of slots that fit into ``budget_bytes``.

    Parameters
    ----------
    budget_bytes
        Device memory for expert weights.
    row_bytes
        Bytes of one expert.
    layers, experts
        Shape of the model.
    slots
        Slots wanted; ``None`` takes a quarter of what fits, between 1 and 48.

    Raises
    ------
    AttachError
        When the budget is too small; the message names the least that works.
    """
    fitting = budget_bytes // row_bytes
    total = layers * experts
    if fitting >= total and slots is None:
        return total, 0
    wanted = max(1, min(_MOST_SLOTS, fitting // 4)) if slots is None else slots
    if wanted < 0:
        raise AttachError(f"expected slots >= 0, got {wanted}")
    if fitting < max(1, wanted):
        least = row_bytes * max(1, wanted)
        raise AttachError(
            f"expected expert_memory of at least {format_bytes(least)} ({least} bytes) for {max(1, wanted)} "
            f"slots of {format_bytes(row_bytes)}, got {format_bytes(budget_bytes)} ({budget_bytes} bytes)"
        )
    return min(total, fitting - wanted), wanted


def choose_residents(popularity: FloatArray, residents: int) -> tuple[tuple[int, ...], ...]:
    """The most popular experts of each layer, equally many in all layers up to a remainder.

    Parameters
    ----------
    popularity
        Share of each expert, float ``[layers, experts]``.
    residents
        How many in all.
    """
    layers, experts = popularity.shape
    order = np.argsort(-popularity, axis=1, kind="stable")
    each, rest = divmod(min(residents, layers * experts), layers)
    chosen = [order[layer, :each].tolist() for layer in range(layers)]
    # The remainder goes where the next expert in line is used most.
    following = popularity[np.arange(layers), order[:, min(each, experts - 1)]]
    for layer in np.argsort(-following, kind="stable")[:rest].tolist():
        chosen[layer].append(int(order[layer, each]))
    return tuple(tuple(sorted(row)) for row in chosen)
