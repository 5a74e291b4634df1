"""A decision of a plan explained: facts, alternatives, prices and break-evens together."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.explain.alternatives import Alternative, Residency, alternatives, residency
from prescope.explain.break_even import BreakEven, break_evens
from prescope.explain.facts import ExpertFacts, layer_experts
from prescope.explain.layers import LayerFacts, costliest_layers, layer_facts
from prescope.explain.prices import Prices, link_prices, prices
from prescope.formulation import Instance, Plan, evaluate
from prescope.formulation.checks import require_int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainSettings:
    """How much work an explanation may be.

    Parameters
    ----------
    effort
        Of every planning anew: experts simulated, about 10 ns each.
    seed
        Of its random kicks.
    prove
        Bound either side by CP-SAT; for small instances.
    break_evens
        Look for them, which is up to a hundred plannings.
    """

    effort: int = 400_000
    seed: int = 0
    prove: bool = False
    break_evens: bool = True

    def __post_init__(self) -> None:
        require_int("effort", self.effort, 1)
        require_int("seed", self.seed, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertExplanation:
    """Why an expert runs where it does.

    Parameters
    ----------
    makespan_ns
        Of the plan.
    facts
        What the plan does with it.
    alternatives
        Its possible places, the plan's own among them.
    residency
        What a place among the residents is worth to it.
    prices
        At its layer.
    break_evens
        What would change its side; empty where it has only one, or where none were asked for.
    """

    makespan_ns: int
    facts: ExpertFacts
    alternatives: tuple[Alternative, ...]
    residency: Residency
    prices: Prices
    break_evens: tuple[BreakEven, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerExplanation:
    """Why a layer takes as long as it does.

    Parameters
    ----------
    makespan_ns
        Of the plan.
    facts
        Of the layer.
    experts
        Its experts with tokens.
    prices
        At the layer.
    """

    makespan_ns: int
    facts: LayerFacts
    experts: tuple[ExpertFacts, ...]
    prices: Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanExplanation:
    """Where a plan loses time.

    Parameters
    ----------
    makespan_ns
        Of the plan.
    ideal_ns
        The sum of its layers with all weights on the device and nobody's help.
    layers
        The layers that lose most beyond that, most first.
    link_prices
        What link time is worth on entering each of them, see `Prices`.
    """

    makespan_ns: int
    ideal_ns: int
    layers: tuple[LayerFacts, ...]
    link_prices: tuple[float, ...]


def explain_expert(
    instance: Instance, plan: Plan, layer: int, expert: int, settings: ExplainSettings | None = None
) -> ExpertExplanation:
    """Explain where an expert runs.

    Parameters
    ----------
    instance, plan
        The problem and a feasible plan of it.
    layer, expert
        An expert with tokens.
    settings
        How much work it may be.

    Raises
    ------
    ValueError
        When there is no such layer or the expert has no tokens in it; `InfeasiblePlanError` when the plan
        does not fit the instance.
    """
    chosen = settings or ExplainSettings()
    schedule = evaluate(instance, plan)
    experts = layer_experts(instance, plan, schedule, layer)
    found = next((one for one in experts if one.expert == expert), None)
    if found is None:
        known = ", ".join(str(number) for number in sorted(one.expert for one in experts))
        raise ValueError(
            f"expected an expert with tokens in layer {layer} ({known or 'it has none'}), got {expert}"
        )
    effort, seed = chosen.effort, chosen.seed
    levers: tuple[BreakEven, ...] = ()
    if chosen.break_evens:
        levers = break_evens(instance, layer, expert, plan=plan, effort=effort, seed=seed)
    return ExpertExplanation(
        makespan_ns=schedule.makespan_ns,
        facts=found,
        alternatives=alternatives(
            instance,
            plan,
            found,
            makespan_ns=schedule.makespan_ns,
            effort=effort,
            seed=seed,
            prove=chosen.prove,
        ),
        residency=residency(instance, plan, found, effort=effort, seed=seed),
        prices=prices(instance, plan, schedule, layer, effort=effort, seed=seed),
        break_evens=levers,
    )


def explain_layer(
    instance: Instance, plan: Plan, layer: int, settings: ExplainSettings | None = None
) -> LayerExplanation:
    """Explain one layer; arguments as for `explain_expert`."""
    chosen = settings or ExplainSettings()
    schedule = evaluate(instance, plan)
    experts = layer_experts(instance, plan, schedule, layer)
    return LayerExplanation(
        makespan_ns=schedule.makespan_ns,
        facts=layer_facts(instance, plan, schedule, layer),
        experts=experts,
        prices=prices(instance, plan, schedule, layer, effort=chosen.effort, seed=chosen.seed),
    )


def explain_plan(instance: Instance, plan: Plan, *, count: int = 5) -> PlanExplanation:
    """Find the layers of a plan that lose most; arguments as for `explain_expert`."""
    require_int("count", count, 1)
    schedule = evaluate(instance, plan)
    every = costliest_layers(instance, plan, schedule, count=instance.layers)
    return PlanExplanation(
        makespan_ns=schedule.makespan_ns,
        ideal_ns=sum(one.ideal_ns for one in every),
        layers=every[:count],
        link_prices=link_prices(instance, schedule, [one.layer for one in every[:count]]),
    )
