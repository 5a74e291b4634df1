"""Residency rules by name: the built-in ones, and those of other packages."""

from __future__ import annotations

from collections.abc import Callable

from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.solver.errors import UnsuitableInstanceError
from prescope.solver.plugins import PluginError, load_entry, plugin_names
from prescope.solver.residency.auto import prefers_average
from prescope.solver.residency.base import ResidencyRule
from prescope.solver.residency.history import fit_to_history
from prescope.solver.residency.learned import Learned
from prescope.solver.residency.offline import offline_trials
from prescope.solver.residency.rules import (
    Belady,
    LeastFrequentlyUsed,
    LeastRecentlyUsed,
    MovingAverage,
    Static,
)
from prescope.solver.residency.run import StepPlanner, run_horizon
from prescope.solver.residency.setting import RuleSetting, rule_setting

RESIDENCY_GROUP = "prescope.residency"
"""Entry-point group of other packages' rules."""

RuleMaker = Callable[[RuleSetting], ResidencyRule]
"""Makes a rule for one horizon. With a true attribute ``knows_demand`` it is told the demand of all steps."""

FLOW = "flow"
"""No rule alone: flows at several prices are executed and the shortest is kept."""


def _static(setting: RuleSetting) -> ResidencyRule:
    return Static()


def _lru(setting: RuleSetting) -> ResidencyRule:
    return LeastRecentlyUsed(setting.layers, setting.experts)


def _lfu(setting: RuleSetting) -> ResidencyRule:
    return LeastFrequentlyUsed(setting.layers, setting.experts)


def _moving_average(setting: RuleSetting) -> ResidencyRule:
    # Weights chosen on validation sequences of gpt-oss-20b (docs/residency.md).
    return MovingAverage(
        setting.start / setting.start.sum(axis=1, keepdims=True),
        fixed_ns=setting.fixed_ns,
        per_token_ns=setting.per_token_ns,
        decay=0.03 if setting.tokens == 1 else 0.1,
    )


def _learned(setting: RuleSetting) -> ResidencyRule:
    sums = fit_to_history(setting.history, setting.start)
    if not sums.weight:
        raise UnsuitableInstanceError(
            "expected a horizon with a history of at least "
            f"{sums.settings.ahead} steps in a row for the rule learned, got a shorter one; "
            "static, lru, lfu and moving-average need none"
        )
    return Learned(setting.start, sums, fixed_ns=setting.fixed_ns, per_token_ns=setting.per_token_ns)


def _auto(setting: RuleSetting) -> ResidencyRule:
    share = sum(map(len, setting.residents)) / (setting.layers * setting.experts)
    return (_moving_average if prefers_average(setting.tokens, share) else _learned)(setting)


def _belady(setting: RuleSetting) -> ResidencyRule:
    return Belady(setting.demands)


_MAKERS: dict[str, RuleMaker] = {
    "static": _static,
    "lru": _lru,
    "lfu": _lfu,
    "moving-average": _moving_average,
    "learned": _learned,
    "auto": _auto,
    "belady": _belady,
}
_BUILT_IN = (*_MAKERS, FLOW)


def residency_rules() -> tuple[str, ...]:
    """Names that `plan_horizon` takes: the built-in ones, then those that other packages add."""
    return (*_BUILT_IN, *plugin_names(_BUILT_IN, group=RESIDENCY_GROUP, what="residency rule"))


def check_rule(name: str) -> None:
    """Refuse a name that is no rule.

    Raises
    ------
    ValueError
        Naming those there are, or the package whose rule does not load.
    """
    if name != FLOW:
        _maker(name)


def knows_demand(name: str) -> bool:
    """Whether a rule is told the demand of steps that have not begun."""
    return name in (FLOW, "belady") or bool(getattr(_maker(name), "knows_demand", False))


def plan_horizon(horizon: Horizon, rule: str, plan_step: StepPlanner) -> HorizonPlan:
    """Carry a rule through a horizon, as `run_horizon` does; flows are executed at several prices.

    Raises
    ------
    ValueError
        When no rule has that name.
    UnsuitableInstanceError
        When the rule needs something that the horizon does not have.
    """
    if rule == FLOW:
        trials = [
            trial for trial in offline_trials(horizon, plan_step) if trial.label.partition(" ")[0] == FLOW
        ]
        return min(trials, key=lambda trial: trial.schedule.total_ns).plan
    made = _maker(rule)(rule_setting(horizon, knows_demand=knows_demand(rule)))
    parts = (getattr(made, part, None) for part in ("observe", "scores"))
    if not all(map(callable, parts)) or not isinstance(getattr(made, "name", None), str):
        raise ValueError(
            f"expected the residency rule {rule!r} to have a name, observe(counts) and scores(), "
            f"got {type(made).__name__}"
        )
    return run_horizon(horizon, made, plan_step)


def _maker(name: str) -> RuleMaker:
    if name in _MAKERS:
        return _MAKERS[name]
    try:
        loaded, where = load_entry(name, group=RESIDENCY_GROUP, what="residency rule")
    except KeyError:
        known = ", ".join(residency_rules())
        raise ValueError(f"expected a residency rule among {known}, got {name!r}") from None
    if not callable(loaded):
        raise PluginError(f"expected {where} to make a rule when called with a RuleSetting, got {loaded!r}")
    maker: RuleMaker = loaded
    return maker
