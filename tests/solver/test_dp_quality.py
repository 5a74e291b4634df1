"""The dp method against proved optima, with the worst cases found kept as files."""

from dataclasses import replace
from pathlib import Path

import pytest
from cp_sat_judge import prove_optimum
from tiny_instances import make_instance, seeded

from prescope.formulation import instance_arrays
from prescope.formulation.workload import layer_tables, workload
from prescope.instances import read_instance
from prescope.instances.synthetic import synthetic_instance
from prescope.solver import Status, solve
from prescope.solver.methods.dp import LeadDp, Polish
from prescope.solver.quick import quick_plan

DATA = Path(__file__).parent.parent / "data" / "solver"
# Largest gap of dp to the proved optimum; above 1 % only with fewer than four slots.
HARD = {
    "equal_devices": 0.01,
    "three_change_places": 0.001,
    "late_small_copy": 0.10,
    "one_slot": 0.02,
    "two_slots": 0.01,
}


@pytest.mark.parametrize("first", [2000, 2050])
def test_near_the_proved_optimum_with_four_slots(first: int) -> None:
    gaps = []
    for seed in range(first, first + 50):
        drawn = make_instance(seeded(seed), max_layers=4, max_experts=6)
        instance = replace(drawn, slots=max(4, drawn.slots))
        optimum = prove_optimum(instance).makespan_ns
        reached = solve(instance).makespan_ns
        assert reached is not None and reached >= optimum, seed
        gaps.append((reached - optimum) / max(optimum, 1))
    assert sum(gaps) / len(gaps) <= 0.001 and max(gaps) <= 0.01


@pytest.mark.parametrize("name", HARD)
def test_worst_cases(name: str) -> None:
    file = read_instance(DATA / f"{name}.json")
    optimum = file.bounds.optimum_ns
    assert optimum is not None
    result = solve(file.instance)
    assert result.makespan_ns is not None and result.lower_bound_ns <= optimum <= result.makespan_ns
    assert result.makespan_ns <= optimum * (1 + HARD[name])
    proved = solve(file.instance, method="cp-sat")
    assert proved.status is Status.OPTIMAL and proved.makespan_ns == optimum


def test_all_hard_instances_are_listed() -> None:
    assert {path.stem for path in DATA.glob("*.json")} == set(HARD)


@pytest.mark.parametrize("lookahead", [1, 16])
@pytest.mark.parametrize("batch", [1, 16])
def test_a_real_shape_is_planned_to_the_bound(batch: int, lookahead: int) -> None:
    instance = synthetic_instance("olmoe-1b-7b", "a100-pcie4", batch, 3, lookahead=lookahead)
    result = solve(instance)
    assert result.gap is not None and result.gap <= 0.001


@pytest.mark.parametrize("model", ["olmoe-1b-7b", "gpt-oss-20b", "mixtral-8x7b"])
def test_a_short_lookahead_is_planned_for_before_any_polish(model: str) -> None:
    for lookahead in (2, 3):
        instance = synthetic_instance(model, "lab", 1, 0, lookahead=lookahead)
        plain = solve(instance, method=LeadDp(polish=Polish.NONE))
        assert plain.gap is not None and plain.gap <= 0.05
        assert solve(instance).gap == pytest.approx(0, abs=1e-4)


def test_polish_only_improves() -> None:
    instance = synthetic_instance("mixtral-8x7b", "lab", 8, 0)
    none, fast, full = (solve(instance, method=LeadDp(polish=polish)).makespan_ns for polish in Polish)
    assert none is not None and fast is not None and full is not None
    assert full <= fast <= none


def test_a_finer_grid_stays_close() -> None:
    instance = synthetic_instance("gpt-oss-20b", "lab", 1, 1)
    coarse, fine = (solve(instance, method=LeadDp(q_grid=grid)) for grid in (1, 4))
    assert coarse.gap is not None and fine.gap is not None
    assert abs(coarse.gap - fine.gap) <= 0.001


def test_the_kept_value_function_repeats_the_plan_and_follows_the_lead() -> None:
    instance = synthetic_instance("olmoe-1b-7b", "lab", 4, 0)
    work = workload(instance)
    tables = layer_tables(work)
    choice, _, function = quick_plan(work, tables)
    arrays = instance_arrays(instance)

    def replan(lead_ns: float):
        return function.replan(
            0,
            lead_ns,
            active=arrays.active[0],
            resident=arrays.resident[0],
            cpu_ns=arrays.cpu_ns[0],
            gpu_ns=arrays.gpu_ns[0],
        )

    copied, demoted = replan(0.0)
    first = work.missing[: work.missing_offsets[1]]
    assert copied.tolist() == first[choice.take[: len(first)]].tolist()
    kept = choice.keep[: work.resident_offsets[1]]
    assert demoted.tolist() == work.resident[: len(kept)][~kept].tolist()
    # A long lead costs nothing to use: everything worth copying is copied.
    assert len(replan(1e12)[0]) == tables.useful[0]
    assert len(replan(-1e12)[0]) == 0
