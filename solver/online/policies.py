"""Gate policies: what a layer does once its true counts are known, and what the link brings next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.solver.online.expected import GUARD, ExpectedPolicy
from prescope.solver.online.future import Outlook
from prescope.solver.online.gate_arrays import PolicyCode
from prescope.solver.online.split import split_costs
from prescope.solver.online.state import GateDecision, GateState


class GatePolicy(Protocol):
    """Decides one layer after another."""

    @property
    def name(self) -> str:
        """Name in the registry."""
        ...

    def horizon(self, lookahead: int) -> int:
        """How many coming layers it wants forecasts of when the lookahead allows ``lookahead``."""
        ...

    def decide(self, state: GateState) -> GateDecision:
        """Decide the layer of ``state``."""
        ...


class SplitPolicy:
    """Chooses the split of the layer by its end plus the value of what comes after.

    Parameters
    ----------
    name
        Name in the registry.
    ahead
        Most layers it looks ahead; ``None`` takes the whole lookahead, 0 never prefetches.
    copies
        ``"best"`` chooses the number of on-demand copies, ``"all"`` copies every missing expert, ``"none"``
        leaves them to the host.
    """

    def __init__(self, name: str, *, ahead: int | None, copies: str = "best") -> None:
        self.name = name
        self._ahead = ahead
        self._copies = copies

    @property
    def code(self) -> PolicyCode:
        """The policy as numbers."""
        ahead = -1 if self._ahead is None else self._ahead
        return PolicyCode(
            ahead=ahead, copies=("best", "all", "none").index(self._copies), expected=False, spread=0.0
        )

    def horizon(self, lookahead: int) -> int:
        """How many layers ahead it uses; see `GatePolicy.horizon`."""
        return lookahead if self._ahead is None else min(self._ahead, lookahead)

    def decide(self, state: GateState) -> GateDecision:
        """Decide a gate; see `GatePolicy.decide`."""
        outlook = Outlook.of(state) if state.future and state.free_slots > 0 else None
        if state.layer < 0:
            wishes = self.wishes(state, outlook, -state.link_free_ns) if outlook else ()
            return GateDecision(gpu=(), cpu=(), prefetch=wishes)
        active = state.active
        ready = _sorted(np.flatnonzero(active & (state.arrival_ns == 0)), state.cpu_ns)
        late = _sorted(np.flatnonzero(active & (state.arrival_ns > 0)), state.arrival_ns)
        missing = _sorted(np.flatnonzero(active & (state.arrival_ns < 0)), -state.cpu_ns)
        end_ns, waited, demoted, link_ns = split_costs(
            state.gpu_ns[ready],
            state.cpu_ns[ready],
            state.arrival_ns[late],
            state.gpu_ns[late],
            state.cpu_ns[late],
            state.gpu_ns[missing],
            state.cpu_ns[missing],
            state.copy_ns,
            state.link_free_ns,
            state.host_free_ns,
            state.usable_slots,
            state.host_computes,
            self._copies == "all" or not state.host_computes,
        )
        copies = self._choose(state, outlook, end_ns, link_ns)
        wait, demote = int(waited[copies]), int(demoted[copies])
        demand = tuple(missing[:copies].tolist())
        kept = ready[demote:]
        if state.pinned is not None:
            # Experts in slots first: the sooner they are done, the sooner the link has their slots.
            kept = kept[np.argsort(state.pinned[kept], kind="stable")]
        gpu = (*kept.tolist(), *late[:wait].tolist(), *demand)
        cpu = (*missing[copies:].tolist(), *late[wait:].tolist(), *ready[:demote].tolist())
        lead_ns = int(end_ns[copies] - link_ns[copies])
        wishes = self.wishes(state, outlook, lead_ns) if outlook else ()
        return GateDecision(gpu=gpu, cpu=cpu, demand=demand, prefetch=wishes)

    def wishes(self, state: GateState, outlook: Outlook, lead_ns: int) -> tuple[tuple[int, int], ...]:
        """Copies ``(layers ahead, expert)`` for coming layers, in link order.

        Parameters
        ----------
        state, outlook
            The gate, and the value of link time after it.
        lead_ns
            How long before the end of the gate's layer the link is free; negative where it is later.
        """
        return outlook.wishes(float(lead_ns))

    def _choose(self, state: GateState, outlook: Outlook | None, end_ns: IntArray, link_ns: IntArray) -> int:
        most = int(end_ns.shape[0]) - 1
        if self._copies == "all" or not state.host_computes:
            return most
        if self._copies == "none":
            return 0
        if outlook is None:
            return int(end_ns.argmin())
        return outlook.best_split(end_ns, link_ns)


def _sorted(experts: IntArray, key: IntArray) -> IntArray:
    # Stable, so that equal experts keep their ascending ids and runs repeat exactly.
    ordered: IntArray = experts[np.argsort(key[experts], kind="stable")]
    return ordered


def _rule(name: str) -> GatePolicy:
    # Imported here: the rules are built on this package.
    from prescope.solver.rules import RULES

    return RULES[name]()


_POLICIES: dict[str, Callable[[], GatePolicy]] = {
    "on-demand": lambda: SplitPolicy("on-demand", ahead=0, copies="all"),
    "cpu-only": lambda: SplitPolicy("cpu-only", ahead=0, copies="none"),
    "intra-layer": lambda: SplitPolicy("intra-layer", ahead=0),
    "presched": lambda: SplitPolicy("presched", ahead=1),
    "dp": lambda: SplitPolicy("dp", ahead=None),
    "expected": lambda: ExpectedPolicy(guard=GUARD),
    "ktransformers": lambda: _rule("ktransformers"),
    "fiddler": lambda: _rule("fiddler"),
    "freetoken": lambda: _rule("freetoken"),
    "klotski": lambda: _rule("klotski"),
    "fate": lambda: _rule("fate"),
    "hybrimoe": lambda: _rule("hybrimoe"),
}


def policy_code(policy: GatePolicy) -> PolicyCode | None:
    """The policy as numbers for compiled code, or ``None`` where it has none."""
    if isinstance(policy, ExpectedPolicy):
        return policy.code
    # A subclass decides otherwise.
    return policy.code if type(policy) is SplitPolicy else None


def gate_policies() -> tuple[str, ...]:
    """Names of the gate policies."""
    return tuple(_POLICIES)


def make_gate_policy(name: str) -> GatePolicy:
    """Build a gate policy by name.

    Raises
    ------
    ValueError
        When the name is unknown; the message lists the known ones.
    """
    if name not in _POLICIES:
        raise ValueError(f"expected a policy among {', '.join(gate_policies())}, got {name!r}")
    return _POLICIES[name]()
