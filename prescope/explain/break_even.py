"""What would have to change for an expert's other side to be the better one, found by planning anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from prescope.formulation import CostModel, Demand, Instance, LinearTime, Plan, TableTime, TimeCurve
from prescope.solver.forced import Force, replan

# Speeds are tried at 2, 1/2, 4, 1/4, ... times what they are; where the side changes first, the change is
# found to one part in a hundred.
_DOUBLINGS = 4
_STEPS = 7
# Less than this part of the batch is as good as nothing: the search does not see so much more.
_TOLERANCE = 1e-4


class Lever(StrEnum):
    """What changes."""

    TOKENS = "tokens"
    LINK = "link bytes/s"
    HOST = "host speed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """Where the better side changes when one thing does and all else stays.

    The device is the better side where it saves more than a ten-thousandth of the batch.

    Parameters
    ----------
    lever
        What changes: the expert's tokens, the link's bytes per second, the host's speed as a multiple.
    now
        Its value in the instance.
    device_from, host_from
        On one side of the change the device is better and on the other it is not: the two values next to
        the change that is nearest to ``now``; ``None`` where none was found in the range looked at.
    low, high
        That range.
    """

    lever: Lever
    now: float
    device_from: float | None
    host_from: float | None
    low: float
    high: float

    @property
    def found(self) -> bool:
        """Whether the better side changes in the range."""
        return self.device_from is not None and self.host_from is not None


def device_wins(
    instance: Instance, layer: int, expert: int, *, plan: Plan, effort: int, seed: int = 0
) -> bool | None:
    """Whether running the expert on the device is clearly better, everything else planned anew either way.

    ``None`` where one of the two is impossible. Arguments as for `break_evens`.
    """
    times = []
    for on_device in (True, False):
        force = Force(layer=layer, expert=expert, on_device=on_device)
        found = replan(instance, force, hint=plan, effort=effort, seed=seed)
        if found is None:
            return None
        times.append(found[1])
    device_ns, host_ns = times
    return host_ns - device_ns > _TOLERANCE * host_ns


def break_evens(
    instance: Instance, layer: int, expert: int, *, plan: Plan, effort: int, seed: int = 0
) -> tuple[BreakEven, ...]:
    """Break-evens of an expert's side; empty where it has only one.

    Parameters
    ----------
    instance
        The problem.
    layer, expert
        An expert with tokens.
    plan
        A plan to start from.
    effort, seed
        Of planning anew, see `prescope.solver.forced.replan`. It is a search, not a proof: near the change,
        where both sides take almost the same time, it may be off by what the search misses.
    """

    def wins(changed: Instance) -> bool:
        return bool(device_wins(changed, layer, expert, plan=plan, effort=effort, seed=seed))

    if device_wins(instance, layer, expert, plan=plan, effort=effort, seed=seed) is None:
        return ()
    tokens = int(instance.demand.counts[layer, expert])
    speed = instance.costs.link.bytes_per_s
    found = []
    if instance.demand.batch_tokens > 1:
        most = instance.demand.batch_tokens
        found.append(_whole(tokens, most, lambda n: wins(with_tokens(instance, layer, expert, n))))
    if expert not in instance.residents[layer]:
        found.append(_scaled(Lever.LINK, speed, lambda factor: wins(with_link(instance, factor))))
    found.append(_scaled(Lever.HOST, 1, lambda factor: wins(with_host(instance, factor))))
    return tuple(found)


def with_tokens(instance: Instance, layer: int, expert: int, tokens: int) -> Instance:
    """The instance with another number of tokens for one expert, and no predictions."""
    counts = np.array(instance.demand.counts)
    counts[layer, expert] = tokens
    demand = Demand(counts=counts, batch_tokens=instance.demand.batch_tokens)
    return replace(instance, demand=demand, predicted=None)


def with_link(instance: Instance, factor: float) -> Instance:
    """The instance with a link ``factor`` times as fast; its latency stays."""
    link = instance.costs.link
    faster = replace(link, bytes_per_s=max(1, round(link.bytes_per_s * factor)))
    return replace(instance, costs=replace(instance.costs, link=faster))


def with_host(instance: Instance, factor: float) -> Instance:
    """The instance with a host ``factor`` times as fast."""
    return replace(instance, costs=faster_host(instance.costs, factor))


def faster_host(costs: CostModel, factor: float) -> CostModel:
    """Costs with the host's experts ``factor`` times as fast."""
    return replace(costs, cpu=tuple(faster(curve, factor) for curve in costs.cpu))


def faster(curve: TimeCurve, factor: float) -> TimeCurve:
    """A curve of times divided by ``factor``."""
    if isinstance(curve, LinearTime):
        return LinearTime(fixed_ns=round(curve.fixed_ns / factor), per_token_ns=curve.per_token_ns / factor)
    return TableTime(tokens=curve.tokens, times_ns=tuple(round(time / factor) for time in curve.times_ns))


def _whole(now: int, most: int, wins: Callable[[int], bool]) -> BreakEven:
    """The change nearest to ``now`` among 1 to ``most`` tokens, looked for 1, 2, 4, ... away and bisected."""
    here = wins(now)
    tried = {1: now, -1: now}
    found: tuple[int, int] | None = None
    reach = 1
    while found is None and (tried[1] < most or tried[-1] > 1):
        for way in (1, -1):
            near, far = tried[way], min(most, max(1, now + way * reach))
            if far != near and wins(far) != here:
                found = near, far
                break
            tried[way] = far
        reach *= 2
    while found is not None and abs(found[1] - found[0]) > 1:
        middle = sum(found) // 2
        found = (middle, found[1]) if wins(middle) == here else (found[0], middle)
    return _break_even(Lever.TOKENS, now, found, here, (1, most))


def _scaled(lever: Lever, now: float, wins: Callable[[float], bool]) -> BreakEven:
    """The change nearest to a factor of 1, looked for at powers of two and bisected between them."""
    here = wins(1.0)
    most = 2.0**_DOUBLINGS
    factors = [2.0 ** (way * power) for power in range(1, _DOUBLINGS + 1) for way in (1, -1)]
    far = next((factor for factor in factors if wins(factor) != here), None)
    found = None
    if far is not None:
        near = far / 2 if far > 1 else far * 2
        for _ in range(_STEPS):
            middle = (near * far) ** 0.5
            near, far = (middle, far) if wins(middle) == here else (near, middle)
        found = near * now, far * now
    return _break_even(lever, now, found, here, (now / most, now * most))


def _break_even(
    lever: Lever, now: float, found: tuple[float, float] | None, here: bool, within: tuple[float, float]
) -> BreakEven:
    """From the two values next to the change, the one on this side first."""
    device_from, host_from = (None, None) if found is None else found if here else found[::-1]
    return BreakEven(
        lever=lever,
        now=now,
        device_from=device_from,
        host_from=host_from,
        low=within[0],
        high=within[1],
    )
