"""Residency rules by name: all of them on random horizons, and those of other packages."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_horizons import plan_step, tiny_horizon

from prescope.formulation import Demand
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.solver import UnsuitableInstanceError
from prescope.solver.plugins import PluginError
from prescope.solver.residency import (
    horizon_bound,
    plan_horizon,
    prefers_average,
    registry,
    residency_rules,
    rule_setting,
)
from prescope.solver.residency.history import PENALTIES, fit_to_history
from prescope.solver.residency.registry import _MAKERS, check_rule, knows_demand

RULES = ("static", "lru", "lfu", "moving-average", "learned", "auto", "belady", "flow")
FOREIGN = """
import numpy as np


class Recent:
    name = "recent"

    def __init__(self, setting):
        assert not setting.demands and setting.start.shape == (setting.layers, setting.experts)
        self._last = np.zeros((setting.layers, setting.experts))

    def observe(self, counts):
        self._last = counts.astype(float)

    def scores(self):
        return self._last


class Prophet(Recent):
    knows_demand = True

    def __init__(self, setting):
        assert len(setting.demands) == 4
        self._last = sum(setting.demands).astype(float)


class Narrow(Recent):
    def scores(self):
        return self._last[:, :1]


class Lost(Recent):
    def scores(self):
        return self._last * np.nan


class Words(Recent):
    def scores(self):
        return [["much"] * self._last.shape[1]] * self._last.shape[0]


class Small(Recent):
    def scores(self):
        return self._last.astype(np.uint8)


class Listed(Recent):
    def scores(self):
        return self._last.tolist()


class Nameless(Recent):
    name = None


def mute(setting):
    return object()


NUMBER = 7
"""


def with_history(horizon, steps=14):
    """The horizon with its steps over and over again as five sequences of history."""
    sequence = tuple(horizon.demands[number % horizon.steps] for number in range(steps))
    return replace(horizon, history=(sequence,) * 5)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 4))
def test_every_rule_makes_plans_that_the_evaluator_takes_above_the_bound(seed, steps):
    horizon = with_history(tiny_horizon(seed, steps))
    assert residency_rules()[: len(RULES)] == RULES
    bound_ns = horizon_bound(horizon)[0]
    for rule in RULES:
        schedule = evaluate_horizon(horizon, plan_horizon(horizon, rule, plan_step))
        assert schedule.total_ns >= bound_ns, rule


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_only_rules_that_say_so_know_the_future(seed):
    """What has not happened yet changes nothing of what a causal rule did before."""
    horizon = with_history(tiny_horizon(seed, 4))
    counts = np.roll(horizon.demands[3].counts, 1, axis=1)
    changed = Demand(counts=counts, batch_tokens=horizon.demands[3].batch_tokens)
    other = replace(horizon, demands=(*horizon.demands[:3], changed))
    for rule in RULES:
        if not knows_demand(rule):
            one, two = (plan_horizon(which, rule, plan_step) for which in (horizon, other))
            assert one.residents == two.residents and one.plans[:3] == two.plans[:3], rule


def test_the_setting_tells_what_was_before_and_nothing_of_what_comes():
    horizon = with_history(tiny_horizon(3, 4))
    setting = rule_setting(horizon)
    assert setting.demands == () and len(setting.history) == 5
    assert len(rule_setting(horizon, knows_demand=True).demands) == 4
    tokens = sum(demand.batch_tokens for demand in horizon.history[0])
    counts = sum(demand.counts for demand in horizon.history[0])
    rows = counts.sum(axis=1) > 0
    assert setting.start[rows] == pytest.approx((counts / max(1, tokens))[rows])
    bare = rule_setting(tiny_horizon(3, 4))
    assert bare.start == pytest.approx(1 / bare.experts) and bare.history == ()


def test_the_setting_has_the_largest_batch_and_the_cost_of_an_expert_that_is_missing():
    horizon = tiny_horizon(3, 4, host=True)
    demands = tuple(replace(demand, batch_tokens=20 + n) for n, demand in enumerate(horizon.demands))
    setting = rule_setting(replace(horizon, demands=demands))
    assert setting.tokens == 23
    for tokens in (1, 2):
        cost_ns = setting.fixed_ns + tokens * setting.per_token_ns
        assert cost_ns == pytest.approx(horizon.costs.cpu[0](tokens))
    copied = rule_setting(tiny_horizon(2, 4, host=False))
    assert (copied.fixed_ns, copied.per_token_ns) == (tiny_horizon(2, 4, host=False).costs.copy_ns(0), 0.0)


@pytest.mark.parametrize(("tokens", "decay"), [(1, 0.03), (2, 0.1), (40, 0.1)])
def test_the_moving_average_begins_with_the_shares_of_the_history(tokens, decay):
    setting = replace(
        rule_setting(tiny_horizon(3, 2, host=True)),
        layers=1, experts=3, tokens=tokens, fixed_ns=5.0, per_token_ns=2.0, start=np.array([[1.0, 0.6, 0.4]]),
    )  # fmt: skip
    rule = _MAKERS["moving-average"](setting)
    counts = np.array([[0, 0, tokens]])
    rule.observe(counts)
    share = np.array([0.5, 0.3, 0.2]) * (1 - decay) + np.array([0.0, 0.0, decay])
    assert rule.scores()[0] == pytest.approx(5 * (1 - np.exp(-share * tokens)) + 2 * share * tokens)


def test_flow_is_the_shortest_of_the_flows_alone(monkeypatch):
    lengths = {"static": 1, "belady": 2, "flow 1 at a": 5, "flow 2 at a": 3, "flow 1 at b": 4}
    trials = [
        SimpleNamespace(label=label, plan=label, schedule=SimpleNamespace(total_ns=total_ns))
        for label, total_ns in lengths.items()
    ]
    monkeypatch.setattr(registry, "offline_trials", lambda horizon, plan_step: iter(trials))
    assert plan_horizon(tiny_horizon(3, 2), "flow", plan_step) == "flow 2 at a"


def test_a_rule_that_learns_wants_a_history():
    horizon = tiny_horizon(3, 4)
    with pytest.raises(UnsuitableInstanceError, match="at least 12 steps .* moving-average need none"):
        plan_horizon(horizon, "learned", plan_step)
    with pytest.raises(UnsuitableInstanceError, match="history"):
        plan_horizon(with_history(horizon, steps=11), "learned", plan_step)
    plan_horizon(with_history(horizon, steps=12), "learned", plan_step)


def test_a_short_history_is_trusted_less():
    """Of pure noise the largest penalty predicts held-out sequences best; of a rhythm a small one."""
    random = np.random.default_rng(0)
    noise = [(random.random((40, 2, 6)) < 0.3).astype(np.int64) for _ in range(8)]
    start = np.full((2, 6), 0.3)
    assert fit_to_history(noise, start).settings.penalty == max(PENALTIES)
    rhythm = np.zeros((40, 2, 6), dtype=np.int64)
    rhythm[np.arange(40), :, np.arange(40) % 6] = 1
    told = fit_to_history([np.roll(rhythm, number, axis=0) for number in range(8)], start)
    assert told.settings.penalty < 0.1
    assert fit_to_history(noise[:3], start).settings.penalty == 1e-3


@pytest.mark.parametrize(
    ("tokens", "share", "average"), [(15, 0.9, False), (16, 0.49, False), (16, 0.5, True), (64, 1.0, True)]
)
def test_large_batches_with_many_residents_take_the_average(tokens, share, average):
    assert prefers_average(tokens, share) is average


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Pretend that a package with rules is installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "foreign_rules.py").write_text(FOREIGN)

    def make(**entries: str) -> None:
        folder = tmp_path / "some_rules-2.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: some-rules\nVersion: 2.0\n")
        lines = [f"{name} = foreign_rules:{value}" for name, value in entries.items()]
        (folder / "entry_points.txt").write_text("\n".join(["[prescope.residency]", *lines, ""]))

    return make


def test_rules_of_other_packages_run_beside_the_built_in_ones(install, caplog):
    install(recent="Recent", prophet="Prophet", lru="Recent")
    with caplog.at_level("WARNING", "prescope"):
        assert residency_rules() == (*RULES, "prophet", "recent")
    assert "the residency rule 'lru' of some-rules 2.0 is left out" in caplog.text
    assert knows_demand("prophet") and not knows_demand("recent")
    horizon = tiny_horizon(11, 4)
    for name in ("recent", "prophet"):
        check_rule(name)
        evaluate_horizon(horizon, plan_horizon(horizon, name, plan_step))


def test_scores_of_any_kind_of_number_order_alike(install):
    install(recent="Recent", small="Small", listed="Listed")
    for seed in range(6):
        horizon = tiny_horizon(seed, 4)
        plans = [plan_horizon(horizon, name, plan_step) for name in ("recent", "small", "listed")]
        assert plans[1:] == plans[:1] * 2


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("missing", PluginError, "some-rules 2.0 .*to load, got AttributeError"),
        ("NUMBER", PluginError, "to make a rule when called with a RuleSetting"),
        ("mute", ValueError, "to have a name, observe\\(counts\\) and scores\\(\\), got object"),
        ("Nameless", ValueError, "to have a name, .* got Nameless"),
        ("Words", ValueError, "expected scores that are numbers"),
        ("Narrow", ValueError, "expected scores of shape"),
        ("Lost", ValueError, "expected finite scores"),
    ],
)
def test_a_broken_rule_is_named(install, value, error, message):
    install(broken=value)
    with pytest.raises(error, match=message):
        plan_horizon(tiny_horizon(11, 4), "broken", plan_step)


def test_an_unknown_rule_lists_the_known_ones():
    with pytest.raises(ValueError, match="expected a residency rule among static, .*got 'best'"):
        check_rule("best")
