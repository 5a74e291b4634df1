"""The places an expert could have: what each costs with the rest as it is, and with the rest planned anew."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prescope.explain.edits import Edited, on_device, on_host
from prescope.explain.facts import ExpertFacts, Place
from prescope.formulation import Instance, Plan
from prescope.solver.forced import Force, replan
from prescope.solver.forced_bound import prove_forced


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One place of an expert.

    Parameters
    ----------
    place
        Where it would run. ``PREFETCHED`` is a copy as early as the lookahead and the link's order allow,
        which need not be before the gate.
    chosen
        Whether the plan has it there.
    fixed_ns
        Makespan with everything else as it is, by the exact evaluator; ``None`` where that is infeasible.
    replanned_ns
        Makespan of the best plan found with the expert there and everything else planned anew; ``None``
        where there is none.
    bound_ns
        No plan with the expert on that side is shorter; ``None`` where nobody proved anything.
    plan
        The re-planned plan.
    """

    place: Place
    chosen: bool
    fixed_ns: int | None
    replanned_ns: int | None
    bound_ns: int | None = None
    plan: Plan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """What the expert's place among the residents is worth in this batch.

    Parameters
    ----------
    resident
        Whether it has one.
    with_ns, without_ns
        Makespan planned anew with and without it, the other residents and the slots as they are; ``None``
        without where the batch then has no plan.
    """

    resident: bool
    with_ns: int
    without_ns: int | None


def alternatives(
    instance: Instance,
    plan: Plan,
    facts: ExpertFacts,
    *,
    makespan_ns: int,
    effort: int,
    seed: int = 0,
    prove: bool = False,
) -> tuple[Alternative, ...]:
    """The places an expert could have.

    Parameters
    ----------
    instance, plan
        The problem and its plan.
    facts
        The expert in this plan.
    makespan_ns
        Of the plan.
    effort, seed
        Of planning anew, see `prescope.solver.forced.replan`.
    prove
        Bound every side by CP-SAT (`prescope.solver.forced_bound.prove_forced`); for small instances.
    """
    layer, expert = facts.layer, facts.expert
    edits: list[tuple[Place, Edited | None]] = []
    if facts.resident:
        edits.append((Place.RESIDENT, on_device(instance, plan, layer, expert)))
    else:
        edits.append((Place.PREFETCHED, on_device(instance, plan, layer, expert)))
        edits.append((Place.ON_DEMAND, on_device(instance, plan, layer, expert, gate=layer)))
    edits.append((Place.CPU, on_host(instance, plan, layer, expert)))
    found = []
    sides: dict[bool, tuple[Plan, int, int | None] | None] = {}
    for place, edited in edits:
        chosen = place is facts.place
        if chosen:
            edited = (plan, makespan_ns)
        device = place is not Place.CPU
        if device not in sides:
            sides[device] = _side(
                instance, Force(layer=layer, expert=expert, on_device=device), edited, effort, seed, prove
            )
        best, bound_ns = edited, None
        side = sides[device]
        if side is not None:
            again: Edited | None = (side[0], side[1])
            if place is Place.ON_DEMAND:
                # Whoever plans anew brings it early; at the gate it is brought by moving its copy there.
                again = on_device(instance, side[0], layer, expert, gate=layer)
            bound_ns = side[2]
            if again is not None and (best is None or again[1] < best[1]):
                best = again
        found.append(
            Alternative(
                place=place,
                chosen=chosen,
                fixed_ns=None if edited is None else edited[1],
                replanned_ns=None if best is None else best[1],
                bound_ns=bound_ns,
                plan=None if best is None else best[0],
            )
        )
    return tuple(found)


def residency(instance: Instance, plan: Plan, facts: ExpertFacts, *, effort: int, seed: int = 0) -> Residency:
    """What a place among the residents is worth to an expert; arguments as for `alternatives`."""
    layer, expert = facts.layer, facts.expert
    row = set(instance.residents[layer])
    times: list[int | None] = []
    for experts in (row | {expert}, row - {expert}):
        residents = list(instance.residents)
        residents[layer] = tuple(sorted(experts))
        try:
            changed = replace(instance, residents=tuple(residents))
        except ValueError:
            # Without host computing and slots there is no instance without it.
            times.append(None)
            continue
        found = replan(changed, hint=plan, effort=effort, seed=seed)
        times.append(None if found is None else found[1])
    with_ns, without_ns = times
    assert with_ns is not None
    return Residency(resident=facts.resident, with_ns=with_ns, without_ns=without_ns)


def _side(
    instance: Instance, force: Force, edited: Edited | None, effort: int, seed: int, prove: bool
) -> tuple[Plan, int, int | None] | None:
    """The best plan found with the expert on one side, and a bound where one is proved."""
    found = replan(instance, force, hint=None if edited is None else edited[0], effort=effort, seed=seed)
    if found is None:
        return None
    if edited is not None and edited[1] < found[1]:
        found = edited
    if not prove:
        return (*found, None)
    return prove_forced(instance, force, found[0], seed=seed)
