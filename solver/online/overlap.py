"""Whether a copy that runs into the next gate is worth what the copies of that gate would have to wait.

A copy cannot be interrupted. The gate that finds the link busy knows its counts and would use the link for an
expert that is needed; the copy under way is for one that probably is. The lead DP does not see this: it plans
with a link that can be given to anything at any time.
"""

from __future__ import annotations

from math import exp

import numba

from prescope.formulation.demand import FloatArray
from prescope.solver.lead_dp import value_at
from prescope.solver.online.gate_arrays import BoolArray

# More missing experts than this are taken as their mean; fewer as a Poisson variable.
_MANY = 12.0
_NEGLIGIBLE = 1e-3


@numba.njit(cache=True, error_model="numpy")
def worth_overlap(
    cpu_ns: FloatArray,
    gpu_ns: FloatArray,
    probability: FloatArray,
    there: BoolArray,
    expert: int,
    copy_ns: int,
    over_ns: int,
    ahead_ns: int,
    value: FloatArray,
    step_ns: int,
) -> bool:
    """Whether to start a copy that ends ``over_ns`` after the next gate, rather than leave the link free.

    Compares what the next layer and all after it are expected to take, with its on-demand copies chosen at
    its gate, with and without the copy. The missing experts that turn out to be needed are a Poisson number
    of average ones.

    Parameters
    ----------
    cpu_ns, gpu_ns, probability
        Expected times of the next layer's experts and their probability of being needed, float64 ``[E]``.
    there
        Which of them are on the device or under way, bool ``[E]``.
    expert
        The next layer's expert that is copied; -1 where the copy is for a later layer.
    copy_ns
        One copy.
    over_ns
        How long after the next gate it ends.
    ahead_ns
        Link time of the copies for later layers that this gate has started.
    value, step_ns
        Value of the link's lead on entering the layer after the next, and the distance of its points.
    """
    host = device = work = chance = 0.0
    for other in range(cpu_ns.shape[0]):
        if there[other]:
            device += gpu_ns[other]
        elif other != expert:
            host += cpu_ns[other]
            work += gpu_ns[other]
            chance += probability[other]
    host_each = work_each = 0.0
    if chance > 0.0:
        host_each, work_each = host / chance, work / chance
    share = host_own = work_own = 0.0
    if expert >= 0:
        share = probability[expert]
        if share > 0.0:
            host_own, work_own = cpu_ns[expert] / share, gpu_ns[expert] / share
    copy, over, lead, step = float(copy_ns), float(over_ns), float(ahead_ns), float(step_ns)
    added = copy if expert < 0 else 0.0
    many = chance > _MANY
    weight = 1.0 if many else exp(-chance)
    missing = int(chance + 0.5) if many else 0
    gain = 0.0
    while True:
        with_ns = _least(0.0, device, over, missing, host_each, work_each, copy, lead + added, value, step)
        without_ns = _least(0.0, device, 0.0, missing, host_each, work_each, copy, lead, value, step)
        gain += weight * (1.0 - share) * (without_ns - with_ns)
        if share > 0.0:
            landed = max(device, over) + work_own
            with_ns = min(
                _least(0.0, landed, over, missing, host_each, work_each, copy, lead, value, step),
                _least(host_own, device, over, missing, host_each, work_each, copy, lead, value, step),
            )
            landed = max(device, copy) + work_own
            without_ns = min(
                _least(0.0, landed, copy, missing, host_each, work_each, copy, lead, value, step),
                _least(host_own, device, 0.0, missing, host_each, work_each, copy, lead, value, step),
            )
            gain += weight * share * (without_ns - with_ns)
        missing += 1
        weight *= chance / missing
        if many or (missing > chance and weight < _NEGLIGIBLE):
            return gain > 0.0


@numba.njit(cache=True, error_model="numpy")
def _least(
    host: float,
    device: float,
    free: float,
    missing: int,
    host_each: float,
    work_each: float,
    copy: float,
    lead: float,
    value: FloatArray,
    step: float,
) -> float:
    """Least end of a layer plus value after it, over the number of copies from when the link is free."""
    best = host + missing * host_each
    if device > best:
        best = device
    best += value_at(value, best - free + lead, step)
    for copies in range(1, missing + 1):
        free += copy
        end = max(host + (missing - copies) * host_each, device + copies * work_each, free + work_each)
        total = end + value_at(value, end - free + lead, step)
        if total >= best:
            break
        best = total
    return best
