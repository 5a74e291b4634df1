"""Horizons on the command line: build, show, solve, verify."""

from pathlib import Path

import pytest
from json_contract import BenchRun, HorizonShow, SolveHorizon, Verified, Written

from prescope.cli import main
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.instances import (
    fitted_recipe,
    read_horizon,
    read_horizon_plan,
    synthetic_trace,
    write_trace,
)

SHAPE = {"layers": 4, "experts": 8, "top_k": 2}


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "routing.npz"
    recipe = fitted_recipe("gptoss-20b")
    made = synthetic_trace(
        recipe, model="small", sequences=8, prompt_tokens=2, decode_tokens=16, seed=3, **SHAPE
    )
    write_trace(path, made)
    return path


@pytest.fixture
def built(answer, trace, tmp_path) -> str:
    options = [
        "--preset",
        "mixtral-8x7b@lab",
        "--batch",
        "2",
        "--steps",
        "6",
        "--history",
        "4",
        "--slots",
        "2",
    ]
    (made,) = answer(
        list[Written], "instances", "build", trace, "-o", tmp_path, *options, "--predictor", "moving-average"
    )
    return made.path


def test_build_show_solve(answer, built, tmp_path):
    horizon = read_horizon(built).horizon
    assert (horizon.steps, horizon.layers, len(horizon.history)) == (6, 4, 4)
    assert horizon.predicted[0].horizons == 4 and horizon.predicted[0].source.startswith("moving-average")
    shown = answer(HorizonShow, "instances", "show", built)
    assert (shown.steps, shown.tokens, shown.history_steps) == (6, [2] * 6, 64)
    out = tmp_path / "plan.json.gz"
    solved = answer(SolveHorizon, "solve", built, "--method", "learned+expected", "-o", out)
    schedule = evaluate_horizon(horizon, read_horizon_plan(out).plan)
    assert (solved.total_ns, solved.step_ns, solved.hits) == (
        schedule.total_ns, list(schedule.step_ns), schedule.hits
    )  # fmt: skip
    assert solved.lower_bound_ns <= solved.total_ns and solved.plan_path == str(out)
    assert answer(SolveHorizon, "solve", built).method == "auto+dp-fast"
    assert answer(Verified, "instances", "verify", built).problems == []
    ran = answer(BenchRun, "bench", built, "--check")
    assert [group.method for group in ran.summary][0] == "static+dp-fast" and ran.check.faults == []
    assert all(group.hit_rate is not None for group in ran.summary)


def test_forecasts_are_those_of_the_gate_before(built):
    """Two tokens choose two experts each; nothing is said earlier than before the first gate."""
    horizon = read_horizon(built).horizon
    for predicted in horizon.predicted:
        assert predicted.expected_tokens[0].sum(axis=1) == pytest.approx(4.0, rel=0.1)
        assert (predicted.expected_tokens[1, 0] == 0).all() and (predicted.expected_tokens[3, :3] == 0).all()


def test_for_people(capsys, built):
    assert main(["solve", built, "--method", "static+dp-fast"]) == 0
    told = capsys.readouterr().out
    assert "hit rate" in told and "mean step" in told
    assert main(["instances", "show", built]) == 0
    assert "64 steps in 4 sequences" in capsys.readouterr().out
    assert main(["bench", built, "--methods", "static+dp-fast,belady+dp-fast"]) == 0
    assert "of the offline gain" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "HORIZON", "--method", "dp"], "expected RULE+PLANNER"),
        (["solve", "HORIZON", "--method", "?"], "rules are static, lru, lfu, moving-average, learned"),
        (
            "instances build TRACE -o OUT --steps 2 --batch 5".split(),
            "expected 5 sequences that are not history, got 4: 4 of the trace's 8 are history",
        ),
        (
            "instances build TRACE -o OUT --steps 2 --batch 1 --history 99".split(),
            "expected 1 sequences that are not history, got 0",
        ),
        (["solve", "HORIZON", "--method", "magic+dp"], "expected a residency rule among"),
        (
            ["solve", "mixtral-8x7b@a100-pcie4-b1-s0", "--method", "static+dp"],
            "expected a horizon for the method",
        ),
        (["bench", "HORIZON", "--methods", "dp"], "expected RULE+PLANNER such as static+dp-fast"),
        (["bench", "HORIZON", "mixtral-8x7b@a100-pcie4-b1-s0"], "expected horizons for the method"),
        (
            ["instances", "build", "TRACE", "-o", "OUT", "--steps", "99", "--batch", "2"],
            "decoded tokens, got 16 steps of all 2",
        ),
        (["instances", "build", "TRACE", "-o", "OUT", "--history", "3"], "expected --steps with --history"),
        (
            ["instances", "build", "TRACE", "-o", "OUT", "--steps", "2", "--every", "2"],
            "expected --steps without",
        ),
        (
            "instances build TRACE -o OUT --steps 2 --batch 2 --predictor magic".split(),
            "expected a predictor among",
        ),
    ],
)
def test_wrong_input_is_one_clear_line(refusal, built, trace, tmp_path, arguments, message):
    names = {"HORIZON": built, "TRACE": str(trace), "OUT": str(tmp_path / "out")}
    assert message in refusal(*[names.get(argument, argument) for argument in arguments])
