"""`prescope explain`: answers as promised, sentences that say what the numbers say, clear refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from json_contract_explain import ExplainExpert, ExplainLayer, ExplainPlan

from prescope.cli import main
from prescope.formulation import format_ns

Answer = Callable[..., Any]


@pytest.fixture
def plan_path(instance_path: Path, tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    assert main(["solve", str(instance_path), "-o", str(path), "--method", "cp-sat"]) == 0
    return path


def test_plan_layer_and_expert_agree(
    answer: Answer, capsys: pytest.CaptureFixture[str], plan_path: Path, instance_path: Path
) -> None:
    capsys.readouterr()
    assert (
        len(answer(ExplainPlan, "explain", plan_path, "--instance", instance_path, "--top", "2").layers) == 2
    )
    whole = answer(ExplainPlan, "explain", plan_path, "--instance", instance_path, "--top", "99")
    lost = [one.lost_ns for one in whole.layers]
    assert lost == sorted(lost, reverse=True)
    first = next(one for one in whole.layers if one.counts)
    layer = answer(
        ExplainLayer, "explain", plan_path, "--instance", instance_path, "--layer", str(first.layer)
    )
    assert layer.facts.duration_ns == first.duration_ns
    assert format_ns(layer.facts.duration_ns) in layer.sentences[0]
    chosen = layer.experts[0]
    words = ["explain", plan_path, "--instance", instance_path, "--layer", str(first.layer)]
    one = answer(ExplainExpert, *words, "--expert", str(chosen.expert), "--prove")
    assert one.facts == chosen and one.makespan_ns == whole.makespan_ns
    mine = [other for other in one.alternatives if other.chosen]
    assert [other.place for other in mine] == [chosen.place] and mine[0].fixed_ns == one.makespan_ns
    # The plan is proved the best, so nothing planned anew or proved may be better.
    for other in one.alternatives:
        assert other.replanned_ns is None or other.replanned_ns >= other.bound_ns >= whole.makespan_ns


def test_it_speaks_to_people(
    capsys: pytest.CaptureFixture[str], plan_path: Path, instance_path: Path
) -> None:
    for words in ([], ["--layer", "0"]):
        assert main(["explain", str(plan_path), "--instance", str(instance_path), *words]) == 0
        assert "planned by cp-sat" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--expert", "1"], "expected --layer with --expert 1, got none"),
        (["--layer", "99"], "expected a layer in [0, "),
        (["--layer", "0", "--expert", "77"], "expected an expert with tokens in layer 0"),
    ],
)
def test_refusals(
    refusal: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    plan_path: Path,
    instance_path: Path,
    words: list[str],
    says: str,
) -> None:
    capsys.readouterr()
    assert says in refusal("explain", plan_path, "--instance", instance_path, *words)


def test_a_step_of_a_recording(answer: Answer, refusal: Callable[..., str], tmp_path: Path) -> None:
    from prescope.formulation import evaluate
    from prescope.instances import RecordedStep, Recording, synthetic_instance, write_recording
    from prescope.solver import solve

    steps = []
    for seed in range(3):
        instance = synthetic_instance("mixtral-8x7b", "a100-pcie4", 2, seed)
        plan = solve(instance, method="dp-fast").plan
        assert plan is not None
        schedules = {"planned": evaluate(instance, plan)}
        steps.append(RecordedStep(index=seed, instance=instance, plan=plan, schedules=schedules, tokens=2))
    path = tmp_path / "run.json.gz"
    write_recording(path, Recording(steps=tuple(steps)))
    found = answer(ExplainPlan, "explain", path, "--step", "1")
    assert (found.step, found.makespan_ns) == (1, steps[1].schedules["planned"].makespan_ns)
    slowest = answer(ExplainPlan, "explain", path)
    assert slowest.makespan_ns == max(step.schedules["planned"].makespan_ns for step in steps)
    assert "expected --step in [0, 2], got 7" in refusal("explain", path, "--step", "7")
