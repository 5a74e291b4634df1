"""The verb itself: names, records, and what happens when a method breaks."""

import pytest
from tiny_instances import make_instance, seeded

from prescope.formulation import LayerPlan, Plan
from prescope.solver import Draft, Limits, SolverError, Status, get_method, methods, solve

INSTANCE = make_instance(seeded(5), max_layers=3, max_experts=4)


class Fixed:
    """A method that hands back what it is given."""

    name = "fixed"

    def __init__(self, draft: Draft) -> None:
        self.draft = draft

    def plan(self, instance, *, limits, seed, hint) -> Draft:
        return self.draft


def test_every_listed_method_answers_to_its_name() -> None:
    rules = ("ktransformers", "fiddler", "freetoken", "klotski", "fate")
    assert methods()[:9] == ("on-demand", "cpu-only", *rules, "intra-layer", "hybrimoe")
    assert methods()[9:13] == ("presched", "dp", "dp-fast", "cp-sat")
    assert [get_method(name).name for name in methods()] == list(methods())


def test_an_unknown_method_is_refused_with_the_known_names() -> None:
    with pytest.raises(ValueError, match=r"on-demand, .*, dp, .*got 'simplex'"):
        solve(INSTANCE, method="simplex")


def test_the_plan_carries_its_record() -> None:
    result = solve(INSTANCE, method="dp", seed=4)
    assert result.plan is not None
    info = result.plan.info
    assert (info.method, info.seed) == ("dp", 4)
    assert (info.makespan_ns, info.lower_bound_ns) == (result.makespan_ns, result.lower_bound_ns)
    assert info.time_ns == result.time_ns and result.time_ns > 0
    assert ("polish", "full") in info.parameters


def test_the_same_seed_gives_the_same_plan() -> None:
    for seed in range(20):
        instance = make_instance(seeded(seed), max_layers=5, max_experts=7)
        first, second = (solve(instance, seed=1) for _ in range(2))
        assert first.plan is not None and second.plan is not None
        assert first.plan.layers == second.plan.layers and first.plan.transfers == second.plan.transfers


def test_no_plan_is_a_value() -> None:
    result = solve(INSTANCE, method=Fixed(Draft(plan=None)))
    assert result.status is Status.NO_PLAN
    assert result.plan is None and result.makespan_ns is None and result.gap is None
    assert result.lower_bound_ns > 0


def test_an_infeasible_plan_is_the_methods_fault() -> None:
    wrong = Plan(layers=(LayerPlan(),) * INSTANCE.layers)
    with pytest.raises(SolverError, match="fixed made an infeasible plan"):
        solve(INSTANCE, method=Fixed(Draft(plan=wrong)))


def test_a_claimed_bound_above_the_plan_is_the_methods_fault() -> None:
    plan = solve(INSTANCE).plan
    with pytest.raises(SolverError, match="expected a lower bound"):
        solve(INSTANCE, method=Fixed(Draft(plan=plan, proved_bound_ns=10**12)))


def test_the_makespan_is_the_evaluators_not_the_plans_claim() -> None:
    plan = solve(INSTANCE, method="on-demand").plan
    result = solve(INSTANCE, method=Fixed(Draft(plan=plan)))
    assert result.makespan_ns == solve(INSTANCE, method="on-demand").makespan_ns


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("wall_ns", 0, r"expected wall_ns in \[1, inf\], got 0"),
        ("workers", 0, r"expected workers in \[1, inf\], got 0"),
        ("deterministic_time", -1.0, "expected deterministic_time to be finite and >= 0.0, got -1.0"),
    ],
)
def test_limits_are_checked(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(**{field: value})


def test_a_short_wall_limit_cuts_the_effort() -> None:
    instance = make_instance(seeded(93), max_layers=5, max_experts=7)
    short, full = solve(instance, limits=Limits(wall_ns=1)), solve(instance)
    assert short.statistics.effort == 0
    assert full.statistics.effort is not None and full.statistics.effort > 0
