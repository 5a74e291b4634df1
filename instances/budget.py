"""How a memory budget is divided: which experts are pinned on the device, and how many slots remain."""

from __future__ import annotations

import numpy as np

from prescope.formulation import format_bytes
from prescope.formulation.demand import FloatArray
from prescope.instances.residents import choose_residents

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
    ValueError
        When the budget is too small; the message names the least that works.
    """
    fitting = budget_bytes // row_bytes
    total = layers * experts
    if fitting >= total and slots is None:
        return total, 0
    if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 0):
        raise ValueError(f"expected slots to be an integer >= 0, got {slots!r}")
    wanted = max(1, min(_MOST_SLOTS, fitting // 4)) if slots is None else slots
    if fitting < max(1, wanted):
        least = row_bytes * max(1, wanted)
        raise ValueError(
            f"expected expert_memory of at least {format_bytes(least)} ({least} bytes) for {max(1, wanted)} "
            f"slots of {format_bytes(row_bytes)}, got {format_bytes(budget_bytes)} ({budget_bytes} bytes)"
        )
    return min(total, fitting - wanted), wanted


def residents_of_budget(popularity: FloatArray, residents: int) -> tuple[tuple[int, ...], ...]:
    """The most popular experts of each layer, equally many in all layers up to a remainder.

    Parameters
    ----------
    popularity
        Share of each expert, float ``[layers, experts]``.
    residents
        How many in all, at most ``layers * experts``.
    """
    each, rest = divmod(residents, popularity.shape[0])
    chosen = choose_residents(popularity, count=each)
    if not rest:
        return chosen
    # The remainder goes where the next expert in line is used most.
    larger = choose_residents(popularity, count=each + 1)
    extra = [set(more) - set(fewer) for more, fewer in zip(larger, chosen, strict=True)]
    gain = np.array([popularity[layer, list(experts)].sum() for layer, experts in enumerate(extra)])
    favoured = set(np.argsort(-gain, kind="stable")[:rest].tolist())
    return tuple(larger[layer] if layer in favoured else row for layer, row in enumerate(chosen))
