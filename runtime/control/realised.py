"""What a policy or a plan comes to when only predictions are known and the true demand shows gate by gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from prescope.formulation import Instance, Plan, PredictedDemand
from prescope.formulation.forecast import Forecast
from prescope.runtime.control.compiled import online_step
from prescope.runtime.control.followed import FollowedPolicy
from prescope.runtime.control.tables import CostTables
from prescope.runtime.control.twin import Planner, predicted_of
from prescope.runtime.control.wave import StepControl
from prescope.solver.online import GatePolicy, make_gate_policy


def realise(instance: Instance, policy: str | GatePolicy) -> Plan:
    """Run a gate policy over an instance that carries predictions.

    At the gate of layer ``l`` the policy sees the true counts of ``l`` and, of layer ``l + h``, entry
    ``[h - 1, l + h]`` of the predictions, which is what was said at that gate; before the first gate it sees
    entries ``[h - 1, h - 1]``. Beyond the predicted horizons it is told nothing and brings nothing.

    Parameters
    ----------
    instance
        With ``predicted``.
    policy
        A name among `prescope.solver.online.gate_policies`, or a policy.

    Returns
    -------
    Plan
        What was done, late and dropped copies included; ``info.makespan_ns`` is what the exact evaluator
        gives it.

    Raises
    ------
    ValueError
        When the instance has no predictions, or the policy is unknown.
    """
    predicted = predicted_of(instance)
    chosen = make_gate_policy(policy) if isinstance(policy, str) else policy
    return _run(instance, chosen, predicted)


def realise_plan(instance: Instance, plan: Plan | Planner) -> Plan:
    """Follow the copies that an offline method planned from an instance's predictions.

    The true counts show at the gates: copies that turn out useless are dropped, missing experts go to the
    host or are copied on demand as policy ``dp`` would. What is brought ahead is the plan's.

    Parameters
    ----------
    instance
        With ``predicted``.
    plan
        A plan for `prescope.runtime.control.twin.predicted_twin`, made once before the step; or a function
        from an instance to a plan, which is then called at every gate with the predicted coming layers
        alone (`prescope.runtime.control.twin.window_twin`), so that nothing is used before it is said.

    Returns
    -------
    Plan
        As `realise` returns it.

    Raises
    ------
    ValueError
        When the instance has no predictions.
    """
    predicted = predicted_of(instance)
    return _run(instance, FollowedPolicy(instance, plan), predicted)


def forecaster(predicted: PredictedDemand) -> Callable[[int, int], Forecast]:
    """``forecast(layer, horizon)`` as said at the gate of ``layer`` (-1 is the start of the step)."""

    def forecast(layer: int, horizon: int) -> Forecast:
        entry = horizon - 1, layer + horizon
        return Forecast(
            expected_tokens=predicted.expected_tokens[entry], probability=predicted.probabilities[entry]
        )

    return forecast


def predicted_step(
    instance: Instance, policy: GatePolicy, kind: Callable[..., StepControl] = online_step
) -> StepControl:
    """Control of an instance's step by a policy that is told the instance's predictions.

    Parameters
    ----------
    instance
        With ``predicted``.
    policy
        Decides at the gates.
    kind
        Makes the control, with the parameters of `prescope.runtime.control.OnlineStep`.

    Raises
    ------
    ValueError
        When the instance has no predictions.
    """
    predicted = predicted_of(instance)
    resident = np.zeros(instance.demand.counts.shape, dtype=np.bool_)
    for layer, row in enumerate(instance.residents):
        resident[layer, list(row)] = True
    return kind(
        costs=instance.costs,
        tables=CostTables(instance.costs),
        resident=resident,
        slots=instance.slots,
        lookahead=instance.lookahead,
        policy=policy,
        forecast=forecaster(predicted),
        tokens=instance.demand.batch_tokens,
        tier=instance.tier,
        host_computes=instance.host_computes,
        link_ready_ns=instance.link_ready_ns,
        prediction_ns=instance.prediction_ns,
        reach=predicted.horizons,
    )


def _run(instance: Instance, policy: GatePolicy, predicted: PredictedDemand) -> Plan:
    step = predicted_step(instance, policy)
    step.start()
    for layer, counts in enumerate(instance.demand.counts):
        step.gate(layer, counts)
    _, plan = step.finish()
    return replace(plan, info=replace(plan.info, parameters=(("predicted", predicted.source),)))
