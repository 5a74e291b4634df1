"""What the guard of policy ``expected`` remembers from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numba
import numpy as np

from prescope.formulation.demand import FloatArray
from prescope.solver.online.recalibrate import new_sums

# Places in `GuardMemory.trust_ns`.
GAIN, PLAIN, RESTING, TOTAL = 0, 1, 2, 3

FADE = 0.98
"""What is left of a gate's gain one gate later: the guard looks back over some fifty gates."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GuardMemory:
    """What prefetch has gained and how forecasts came true, of all steps so far.

    Parameters
    ----------
    trust_ns
        Float64 ``[4]``: time gained against the same gates without prefetch, fading; the time that they take
        without, fading; whether prefetch rests (not 0); and the time gained in all, not fading and while it
        did not rest.
    sums
        As of `prescope.solver.online.recalibrate.Calibration`.
    """

    trust_ns: FloatArray = field(default_factory=lambda: np.zeros(4))
    sums: FloatArray

    @classmethod
    def fresh(cls, ahead: int) -> GuardMemory:
        """Nothing seen yet, for a policy that looks at most ``ahead`` layers ahead."""
        return cls(sums=new_sums(ahead))

    @property
    def resting(self) -> bool:
        """Whether prefetch rests."""
        return bool(self.trust_ns[RESTING])

    @property
    def gained_ns(self) -> float:
        """Time that prefetch has saved on the modelled clock; negative where it has cost time."""
        return float(self.trust_ns[TOTAL])


@numba.njit(cache=True)
def weigh(trust_ns: FloatArray, plain_ns: int, gain_ns: int, limit: float) -> bool:
    """Take in a gate and say whether prefetch should rest from the next gate on.

    Parameters
    ----------
    trust_ns
        As of `GuardMemory`; changed.
    plain_ns
        What the layer takes without prefetch.
    gain_ns
        What prefetch saved of it, or would have saved.
    limit
        Share of the time that prefetch may lose before it rests; it must gain as much to be taken up again.
    """
    resting = trust_ns[RESTING] != 0.0
    if trust_ns[PLAIN] == 0.0:
        # As if all gates before had been like the first, and prefetch had been worth nothing.
        trust_ns[PLAIN] = plain_ns / (1.0 - FADE)
    trust_ns[GAIN] = trust_ns[GAIN] * FADE + gain_ns
    trust_ns[PLAIN] = trust_ns[PLAIN] * FADE + plain_ns
    if not resting:
        trust_ns[TOTAL] += gain_ns
    allowed_ns = limit * trust_ns[PLAIN]
    rests = bool(trust_ns[GAIN] < (allowed_ns if resting else -allowed_ns))
    trust_ns[RESTING] = 1.0 if rests else 0.0
    return rests
