"""Patched models equal those built anew, and a rebuild says why."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_instances import make_instance, seeded

from prescope.formulation import Instance
from prescope.formulation.models.compact_model import Form, compact_model
from prescope.formulation.models.copy_counts import schedule_counts
from prescope.formulation.models.cp_sat_model import build_cp_sat_model
from prescope.formulation.models.layer_functions import Tables, layer_functions
from prescope.formulation.workload import workload
from prescope.solver import RebuildReason, Resolver, solve
from prescope.solver.exact.cp_sat_linear import CpSatLinearSession
from prescope.solver.exact.highs import HighsSession
from prescope.solver.exact.room import roomy_shape
from prescope.solver.methods.cp_sat import CpSat
from prescope.solver.methods.dp import LeadDp, Polish
from prescope.solver.methods.milp import Milp

pytest.importorskip("highspy")
WEAK = LeadDp(polish=Polish.NONE)


def pair(seed: int) -> tuple[Instance, Instance]:
    """Two random instances of as many layers and experts, one lookahead."""
    first = make_instance(seeded(seed), max_layers=4, max_experts=6, predictions=seed % 3 == 0)
    for other in range(seed + 1, seed + 5000):
        second = make_instance(seeded(other), max_layers=4, max_experts=6, predictions=seed % 3 == 0)
        same = (second.layers, second.experts) == (first.layers, first.experts)
        if same and bool(first.prediction_ns) == bool(second.prediction_ns):
            return first, replace(second, lookahead=first.lookahead)
    raise AssertionError("no pair")


def horizon(instance: Instance) -> int:
    reached = solve(instance, method="on-demand").makespan_ns
    assert reached is not None
    return reached


def test_a_patched_schedule_model_is_the_one_built_anew() -> None:
    compared = 0
    for seed in range(40):
        first, second = pair(seed)
        for symmetry in (True, False):
            shape = roomy_shape(workload(first), first.experts, symmetry=symmetry)
            same_kind = shape.predicts == bool(workload(second).prediction_ns.any())
            if not shape.has_room(workload(second)) or not same_kind:
                continue
            patched = build_cp_sat_model(first, horizon_ns=horizon(first), shape=shape)
            patched.add_hint(solve(first, method="on-demand").plan)
            patched.write(second, horizon_ns=horizon(second))
            fresh = build_cp_sat_model(second, horizon_ns=horizon(second), shape=shape)
            assert str(patched.model.proto) == str(fresh.model.proto), seed
            plan = solve(second, method="on-demand").plan
            patched.add_hint(plan)
            fresh.add_hint(plan)
            assert str(patched.model.proto) == str(fresh.model.proto), seed
            compared += 1
    assert compared > 40


def linear(instance: Instance, form: Form):
    work = workload(instance)
    functions = layer_functions(work, Tables.BOUND)
    link = {"lookahead": work.lookahead, "link_ready_ns": work.link_ready_ns}
    most = schedule_counts(functions, [one.most for one in functions], **link)[0][-1]
    width = [instance.experts] * instance.layers
    return compact_model(functions, form=form, horizon_ns=most, width=width, **link).linear


def highs_numbers(session: HighsSession):
    lp = session.highs.getLp()
    matrix = np.zeros((lp.num_row_, lp.num_col_))
    starts = lp.a_matrix_.start_
    for column in range(lp.num_col_):
        for entry in range(starts[column], starts[column + 1]):
            matrix[lp.a_matrix_.index_[entry], column] = lp.a_matrix_.value_[entry]
    return matrix, *(np.array(part) for part in (lp.col_lower_, lp.col_upper_, lp.row_lower_, lp.row_upper_))


@pytest.mark.parametrize("form", list(Form))
def test_a_patched_linear_model_is_the_one_built_anew(form: Form) -> None:
    for seed in range(40):
        first, second = (linear(one, form) for one in pair(seed))
        in_highs, in_cp_sat = HighsSession(first), CpSatLinearSession(first)
        assert in_highs.patch(second) and in_cp_sat.patch(second)
        for patched, fresh in zip(highs_numbers(in_highs), highs_numbers(HighsSession(second)), strict=True):
            assert np.array_equal(patched, fresh), seed
        assert str(in_cp_sat.model.proto) == str(CpSatLinearSession(second).model.proto), seed


def test_models_of_another_shape_are_not_patched() -> None:
    first, second = (linear(make_instance(seeded(seed)), Form.TABLE) for seed in (1, 2))
    assert not first.same_shape(second)
    assert not HighsSession(first).patch(second)
    assert not CpSatLinearSession(first).patch(second)


@pytest.mark.parametrize(
    "method",
    [
        CpSat(planner=WEAK, known_bound=False),
        Milp(planner=WEAK, known_bound=False),
        Milp(planner=WEAK, known_bound=False, relax=True, form=Form.FLUID),
        Milp(planner=WEAK, known_bound=False, engine="cp-sat", name="cp-sat-table"),
    ],
    ids=lambda method: f"{method.name}",
)
def test_solving_again_finds_what_solving_alone_finds(method) -> None:
    reasons = set()
    for seed in range(12):
        resolver = Resolver(method)
        for instance in pair(seed):
            result = resolver.solve(instance)
            alone = solve(instance, method=method)
            if result.statistics.patched is not None and not getattr(method, "relax", False):
                assert result.statistics.proved_bound_ns == alone.statistics.proved_bound_ns
            assert result.statistics.patched == (result.statistics.rebuilt is None)
            reasons.add(result.statistics.rebuilt)
    assert reasons >= {None, RebuildReason.FIRST}


def test_a_rebuild_says_why() -> None:
    base = make_instance(seeded(4), max_layers=4, max_experts=6, host=True)
    layers = one_layer_more(base)
    other_lookahead = base.lookahead + 1 if base.lookahead < base.layers else 0
    crowded = replace(
        base,
        demand=replace(base.demand, counts=np.ones_like(base.demand.counts), batch_tokens=1),
        residents=((),) * base.layers,
        slots=3,
    )
    for method in (CpSat(planner=WEAK, known_bound=False), Milp(planner=WEAK, known_bound=False)):
        session = method.session()
        for instance, reason in (
            (base, RebuildReason.FIRST),
            (base, None),
            (
                replace(base, lookahead=other_lookahead),
                RebuildReason.LOOKAHEAD,
            ),
            (layers, RebuildReason.LAYERS),
        ):
            assert load(session, instance) is reason
    session = CpSat(planner=WEAK, known_bound=False).session()
    sparse = replace(base, demand=replace(base.demand, counts=np.zeros_like(base.demand.counts)))
    assert load(session, sparse) is RebuildReason.FIRST
    assert load(session, crowded) is RebuildReason.CAPACITY
    predicting = replace(crowded, prediction_ns=(3,) * base.layers)
    assert load(session, predicting) is RebuildReason.PREDICTION
    scip = Milp(engine="scip", planner=WEAK, known_bound=False).session()
    assert [load(scip, base), load(scip, base)] == [RebuildReason.FIRST, RebuildReason.ENGINE]


def load(session, instance: Instance):
    """Why the session builds a model for the instance; `None` when it patches the one it has."""
    if session.name == "cp-sat":
        return session._load(instance, horizon(instance), 0)
    return session._load(instance, solve(instance, method="on-demand").plan).reason


def one_layer_more(instance: Instance) -> Instance:
    costs = instance.costs
    curves = {name: getattr(costs, name)[:1] for name in ("gpu", "cpu", "dense")}
    layers = instance.layers + 1
    return replace(
        instance,
        costs=replace(costs, expert_bytes=(costs.expert_bytes[0],) * layers, **curves),
        demand=replace(
            instance.demand, counts=np.ones((layers, instance.experts), dtype=np.int64), batch_tokens=1
        ),
        residents=((),) * layers,
        prediction_ns=(),
    )


def test_a_hint_given_replaces_the_batch_before() -> None:
    first, second = pair(3)
    resolver = Resolver("dp")
    assert resolver.solve(first).statistics.hint.value == "absent"
    assert resolver.solve(second).statistics.hint_changes is not None
    again = resolver.solve(second, hint=solve(second))
    assert again.statistics.hint_changes is not None and not again.statistics.hint_changes.any
