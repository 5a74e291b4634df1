"""The overhead or the speed of copies with which the simulation of a machine comes to what was measured."""

from __future__ import annotations

from collections.abc import Callable

from prescope.formulation.checks import require_finite

# Each round leaves at most the share of the overhead that copies hide.
_ROUNDS = 20
_CLOSE = 1e-4
_LEAST_PACE = 0.25
_HALVINGS = 18


def matching_overhead_ns(step_ns: Callable[[int], float], measured_ns: float, *, layers: int) -> int:
    """What must be added to every layer for a step to take as long as it was measured to.

    Parameters
    ----------
    step_ns
        The simulated mean step with so much added to every layer, see `prescope.whatif.costs_at`. It may
        jump a little where decisions change; the nearest that was met is taken.
    measured_ns
        Mean step as measured.
    layers
        Number of layers.

    Returns
    -------
    int
        At least 0; 0 also where the simulation is slower than the measurement without any, so that the two
        stay apart.

    Raises
    ------
    ValueError
        When the measurement is not a positive number.
    """
    require_finite("measured_ns", measured_ns, 0.0)
    if measured_ns == 0:
        raise ValueError("expected measured_ns above 0, got 0")
    overhead_ns = 0
    nearest = None
    for _ in range(_ROUNDS):
        missing_ns = measured_ns - step_ns(overhead_ns)
        if nearest is None or abs(missing_ns) < nearest[0]:
            nearest = abs(missing_ns), overhead_ns
        following_ns = max(0, round(overhead_ns + missing_ns / layers))
        if abs(missing_ns) <= _CLOSE * measured_ns or following_ns == overhead_ns:
            break
        overhead_ns = following_ns
    assert nearest is not None
    return nearest[1]


def matching_pace(step_ns: Callable[[float], float], measured_ns: float) -> float:
    """By what copies must be stretched for a step to take as long as it was measured to.

    What copies wait for beside the link (a core for their bookkeeping, other copies' pieces) shows in no
    duration of theirs; it is taken as a slower link.

    Parameters
    ----------
    step_ns
        The simulated mean step with copies stretched so, see `prescope.whatif.costs_at_pace`.
    measured_ns
        Mean step as measured.

    Returns
    -------
    float
        From a quarter to four; the nearer end where neither suffices.

    Raises
    ------
    ValueError
        When the measurement is not a positive number.
    """
    require_finite("measured_ns", measured_ns, 0.0)
    if measured_ns == 0:
        raise ValueError("expected measured_ns above 0, got 0")
    low, high = _LEAST_PACE, 1 / _LEAST_PACE
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if step_ns(middle) < measured_ns:
            low = middle
        else:
            high = middle
    return (low + high) / 2
