"""General solvers behind one interface: they agree, and each known trap of theirs stays hidden."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from tiny_instances import make_instance, seeded

from prescope.formulation.models.compact_model import Form
from prescope.formulation.models.linear_model import UNLIMITED, LinearModel, LinearModelBuilder
from prescope.solver.exact.engine import EngineError, EngineLimits, EngineStatus, trusted_bound
from prescope.solver.exact.engines import engines, get_engine
from prescope.solver.exact.export import linear_model_of
from prescope.solver.exact.math_opt import MathOptEngine, unmasked
from prescope.solver.exact.safe_bound import safe_bound

pytest.importorskip("highspy")
NANOSECONDS = 10**9


def knapsack(limit: int, unit: int = 1, whole: bool = True) -> LinearModel:
    """Least time with three choices of 5, 4 and 3 units of cover for 7, 5 and 4 of time."""
    builder = LinearModelBuilder(name="knapsack")
    end = builder.column("end", 0, 20 * unit, time=True)
    picks = [builder.column(f"pick{index}", 0, 1, integer=whole) for index in range(3)]
    builder.row("cover", list(zip(picks, (5, 4, 3), strict=True)), limit)
    builder.row("time", [(end, 1), *zip(picks, (-7 * unit, -5 * unit, -4 * unit), strict=True)], 0)
    return builder.build(minimise=end)


@pytest.mark.parametrize("name", engines())
@pytest.mark.parametrize("unit", [1, 17, NANOSECONDS])
def test_engines_find_the_optimum_and_never_claim_more(name: str, unit: int) -> None:
    for limit, best in ((0, 0), (3, 4), (5, 7), (7, 9), (8, 11), (12, 16)):
        session = get_engine(name).open(knapsack(limit, unit))
        answer = session.solve(EngineLimits())
        session.close()
        assert answer.status is EngineStatus.OPTIMAL and answer.values is not None
        assert answer.objective == pytest.approx(best * unit, abs=1e-3, rel=1e-9)
        assert answer.bound is not None and answer.bound <= best * unit
        assert answer.bound >= best * unit * (1 - 1e-5) - 1


@pytest.mark.parametrize("name", ["highs", "math-opt-highs", "scip"])
def test_relaxations_are_bounds_below_the_tree(name: str) -> None:
    session = get_engine(name).open(knapsack(8, NANOSECONDS))
    relaxed = session.solve(EngineLimits(relax=True))
    assert relaxed.objective == pytest.approx((5 + 4 + 1 / 5 * 7) * NANOSECONDS)
    assert relaxed.bound == pytest.approx(relaxed.objective, rel=1e-9)
    assert relaxed.bound is not None and relaxed.bound <= 11 * NANOSECONDS


def test_duals_may_be_as_wrong_as_they_like() -> None:
    rng = np.random.default_rng(0)
    for seed in range(30):
        model = linear_model_of(make_instance(seeded(seed)), form=list(Form)[seed % 2])
        session = get_engine("highs").open(model)
        best = session.solve(EngineLimits()).objective
        assert best is not None
        for size in (0.0, 1e-6, 1.0, 1e3):
            duals = rng.normal(size=len(model.rows)) * size
            assert safe_bound(model, duals) <= best + 1e-6
        assert safe_bound(model, np.full(len(model.rows), np.nan)) <= best + 1e-6


def test_highs_takes_another_number_of_threads_in_one_process() -> None:
    for workers in (1, 2, 1, 2):
        answer = get_engine("highs").open(knapsack(8)).solve(EngineLimits(workers=workers))
        assert answer.objective == pytest.approx(11)


def test_highs_would_answer_nothing_if_the_scheduler_stayed() -> None:
    """The trap itself, in a process of its own: kError, objective 0, no exception."""
    code = """
import highspy
answers = []
for threads in (2, 1):
    highs = highspy.Highs()
    highs.silent()
    highs.addVar(1, 2)
    highs.changeColCost(0, 1)
    highs.changeColIntegrality(0, highspy.HighsVarType.kInteger)
    highs.setOptionValue("threads", threads)
    answers.append((highs.run().name, highs.getInfo().objective_function_value))
print(answers)
"""
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "[('kOk', 1.0), ('kError', 0.0)]" in seen.stdout, "HiGHS changed: the reset may go"


def test_highs_errors_are_errors() -> None:
    impossible = knapsack(13)
    for name in engines():
        with pytest.raises(EngineError, match=r"knapsack, got .*(?i:infeasible)"):
            get_engine(name).open(impossible).solve(EngineLimits())


def test_nothing_reaches_stdout() -> None:
    code = (
        "from prescope.solver.exact.highs import silent_highs\n"
        "highs = silent_highs()\nhighs.addVar(0, 1)\nhighs.run()\n"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, "", "")


def test_mathopt_says_what_it_refused() -> None:
    class Refused(Exception):
        pass

    try:
        try:
            raise Refused("threads not supported")
        except Refused:
            raise AttributeError("'StatusNotOk' object has no attribute 'canonical_code'")  # noqa: B904
    except AttributeError as error:
        assert unmasked(error) == "threads not supported"
    assert unmasked(AttributeError("another")) == "another"
    model = knapsack(8)
    model.lower[0] = 40
    with pytest.raises(EngineError) as refused:
        MathOptEngine("scip", "GSCIP").open(model).solve(EngineLimits())
    assert "canonical_code" not in str(refused.value)


def test_mathopt_masks_errors_itself() -> None:
    from ortools.math_opt.python import mathopt

    model = mathopt.Model()
    model.minimize(model.add_variable(lb=0, ub=1))
    with pytest.raises(AttributeError, match="canonical_code") as masked:
        mathopt.solve(model, mathopt.SolverType.HIGHS, params=mathopt.SolveParameters(threads=2))
    assert "threads" in unmasked(masked.value)


def test_cp_sat_is_told_whole_numbers() -> None:
    """An optimum between the points of a coarse grid is found to the nanosecond."""
    builder = LinearModelBuilder(name="grid")
    end = builder.column("end", 0, 10**12, time=True)
    pick = builder.column("pick", 0, 1, integer=True)
    builder.row("time", [(end, 1), (pick, 188_000_001)], 256_000_007)
    builder.row("none", [(pick, -1)], 0)
    answer = get_engine("cp-sat").open(builder.build(minimise=end)).solve(EngineLimits())
    assert (answer.objective, answer.bound) == (256_000_007, 256_000_007)


@pytest.mark.parametrize("name", engines())
def test_starts_are_taken(name: str) -> None:
    model = knapsack(8)
    answer = get_engine(name).open(model).solve(EngineLimits(), start=np.array([12, 1, 1, 0]))
    assert answer.objective == pytest.approx(11) or answer.objective == pytest.approx(12)
    assert answer.start_accepted in (None, True)


def test_limits_are_kept_and_named() -> None:
    answer = get_engine("cp-sat").open(knapsack(8)).solve(EngineLimits(deterministic_time=0.0))
    assert answer.status is not EngineStatus.OPTIMAL
    with pytest.raises(ValueError, match="expected relative_gap"):
        EngineLimits(relative_gap=float("nan"))
    with pytest.raises(ValueError, match="expected an engine among highs"):
        get_engine("cbc")
    with pytest.raises(EngineError, match="relax=False"):
        get_engine("cp-sat").open(knapsack(8)).solve(EngineLimits(relax=True))


def test_a_tree_bound_keeps_its_margin() -> None:
    assert trusted_bound(15.99999) == 16
    assert trusted_bound(1e9) == 1e9 - 2000
    assert trusted_bound(-3.0) == 0


@pytest.mark.parametrize("seed", range(40))
def test_no_multipliers_make_an_invalid_bound(seed: int) -> None:
    """Rows with a lower bound, an upper one, both or one value, against every point of a small box."""
    random = np.random.default_rng(seed)
    columns, rows = 3, 4
    matrix = random.integers(-4, 5, (rows, columns))
    inside = matrix @ random.integers(0, 4, columns)
    builder = LinearModelBuilder(name="box")
    for column in range(columns):
        builder.column(f"x{column}", 0, 3)
    for row in range(rows):
        low, high = inside[row] - random.integers(0, 3), inside[row] + random.integers(0, 3)
        lower, upper = [(low, UNLIMITED), (-UNLIMITED, high), (low, high), (inside[row],) * 2][row]
        builder.row(f"r{row}", list(enumerate(matrix[row].tolist())), int(lower), int(upper))
    model = builder.build(minimise=0)
    points = [np.array(point) for point in product(range(4), repeat=columns)]
    best = min(int(point[0]) for point in points if model.violation(point) == 0)
    for _ in range(50):
        assert safe_bound(model, random.normal(size=rows) * random.choice([0.1, 1.0, 10.0])) <= best
