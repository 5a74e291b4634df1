"""The commands that need no model: answers, refusals, exit codes."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from example_traces import example_trace
from json_contract import (
    Failure,
    Inspect,
    InstanceShow,
    LibraryLine,
    SetLine,
    Solve,
    Verified,
    Written,
)
from small_schedule import SMALL
from trace_rules import broken_trace_rules

import prescope.commands.solve
from prescope.cli import main
from prescope.formulation import evaluate
from prescope.instances import list_library, read_instance, read_plan, write_instance, write_trace
from prescope.report import write_trace as write_schedules
from prescope.solver import methods

Answer = Callable[..., Any]
Refusal = Callable[..., str]


@pytest.mark.parametrize("method", methods())
def test_solve_answers_as_promised(answer: Answer, instance_path: Path, tmp_path: Path, method: str) -> None:
    plan_path = tmp_path / "plan.json"
    solved = answer(Solve, "solve", instance_path, "-o", plan_path, "--method", method, "--seed", "3")
    assert (solved.method, solved.seed, solved.plan_path) == (method, 3, str(plan_path))
    assert solved.lower_bound_ns <= solved.makespan_ns
    assert solved.gap == (solved.makespan_ns - solved.lower_bound_ns) / max(solved.lower_bound_ns, 1)
    # The plan in the answer is the one in the file, and costs what is claimed.
    written = json.loads(plan_path.read_text())["plan"]
    assert layout(solved.plan) == written
    schedule = evaluate(read_instance(instance_path).instance, read_plan(plan_path).plan)
    assert schedule.makespan_ns == solved.makespan_ns


def layout(shape: object) -> object:
    return json.loads(msgspec.json.encode(shape))


def test_solve_for_people(capsys: pytest.CaptureFixture[str], instance_path: Path) -> None:
    assert main(["solve", str(instance_path)]) == 0
    out = capsys.readouterr().out
    assert [line.split("  ")[0] for line in out.splitlines()][:3] == ["instance", "method", "status"]
    assert "\x1b" not in out


def test_inspect_draws_the_plan_that_solve_wrote(
    answer: Answer, capsys: pytest.CaptureFixture[str], instance_path: Path, tmp_path: Path
) -> None:
    plan, trace = tmp_path / "plan.json", tmp_path / "trace.json"
    solved = answer(Solve, "solve", instance_path, "-o", plan)
    inspected = answer(Inspect, "inspect", plan, "--instance", instance_path, "--perfetto", trace)
    assert (inspected.facts["makespan_ns"], inspected.facts["method"]) == (solved.makespan_ns, "dp")
    assert inspected.facts["gap"] == pytest.approx(solved.gap)
    assert broken_trace_rules(trace.read_text()) == []
    assert main(["inspect", str(plan), "--instance", str(instance_path), "--width", "50"]) == 0
    out = capsys.readouterr().out
    lanes = [line for line in out.splitlines() if line.startswith(("link ", "gpu ", "cpu "))]
    assert [len(line) for line in lanes] == [50, 50, 50] and "\x1b" not in out
    again = answer(Inspect, "inspect", trace)
    assert again.step and inspected.step and again.provenance["method"] == "dp"
    assert [one.tasks for one in again.step.schedules] == [one.tasks for one in inspected.step.schedules]


def test_inspect_draws_an_executed_step(answer: Answer, tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    write_schedules(path, {"planned": SMALL, "executed": SMALL}, {"policy": "dp"})
    found = answer(Inspect, "inspect", path)
    assert found.step is not None
    assert [schedule.name for schedule in found.step.schedules] == ["planned", "executed"]
    assert found.step.schedules[0].makespan_ns == SMALL.makespan_ns


def test_inspect_describes_routing(answer: Answer, tmp_path: Path) -> None:
    path = tmp_path / "routing.npz"
    trace = example_trace(experts=8)
    write_trace(path, trace)
    found = answer(Inspect, "inspect", path)
    facts = found.facts
    assert (facts["tokens"], facts["layers"], facts["experts"]) == (
        trace.tokens, trace.layers, trace.meta.experts,
    )  # fmt: skip
    share = facts["hottest_quarter_share"]
    assert isinstance(share, float) and 0.25 <= share <= 1


def test_instances_list_show_and_solve_by_name(answer: Answer) -> None:
    lines = answer(list[LibraryLine], "instances", "list")
    assert lines
    first = min(lines, key=lambda line: line.layers * line.experts)
    assert Path(first.path).is_file()
    shown = answer(InstanceShow, "instances", "show", first.name)
    assert (shown.name, shown.layers, shown.sha256) == (first.name, first.layers, first.sha256)
    solved = answer(Solve, "solve", first.name, "--method", "cpu-only")
    assert first.best_ns is None or solved.makespan_ns >= (first.lower_bound_ns or 0)


def test_instances_sets_and_the_list_of_one(answer: Answer) -> None:
    sets = {line.name: line for line in answer(list[SetLine], "instances", "sets")}
    lines = answer(list[LibraryLine], "instances", "list", "tiny-proved")
    tiny = sets["tiny-proved"]
    assert {line.set for line in lines} == {"tiny-proved"}
    assert (tiny.instances, tiny.proved, tiny.max_gap) == (len(lines), len(lines), 0.0)
    assert tiny.about and all(line.optimum_ns == line.best_ns for line in lines)


def test_instances_verify_proves_again(answer: Answer) -> None:
    lines = answer(list[LibraryLine], "instances", "list", "tiny-proved")
    names = [line.name for line in lines[:2]]
    found = answer(Verified, "instances", "verify", *names)
    assert (found.checked, found.problems, found.proved[0].instances) == (2, [], 2)
    assert found.proved[0].by == lines[0].optimum_by
    quick = answer(Verified, "instances", "verify", "--set", "tiny-proved", "--no-proofs")
    assert (quick.checked, quick.proved, quick.problems) == (len(lines), [], [])


def test_instances_for_people(capsys: pytest.CaptureFixture[str], instance_path: Path) -> None:
    assert main(["instances", "list"]) == 0
    listed = capsys.readouterr().out
    assert "proven optimal" in listed
    # One line each, names whole, though eighty letters are too few.
    assert {entry.name for entry in list_library()} <= {line.split(" ")[0] for line in listed.splitlines()}
    assert main(["instances", "show", str(instance_path)]) == 0
    assert "tiny" in capsys.readouterr().out


def test_instances_verify_says_no_to_a_changed_file(answer: Answer, instance_path: Path) -> None:
    good = answer(Verified, "instances", "verify", instance_path)
    assert (good.checked, good.proved, good.problems) == (1, [], [])
    instance_path.write_text(instance_path.read_text().replace('"slots":', '"slots": 1'))
    bad = answer(Verified, "instances", "verify", instance_path, code=1)
    assert [problem.name for problem in bad.problems] == [str(instance_path)]


def test_instances_build_from_routing(answer: Answer, tmp_path: Path) -> None:
    write_trace(tmp_path / "routing.npz", example_trace(experts=8))
    written = answer(
        list[Written], "instances", "build", tmp_path / "routing.npz", "-o", tmp_path / "out", "--batch", "1",
        "--limit", "2",
    )  # fmt: skip
    assert len(written) == 2
    for entry in written:
        assert read_instance(entry.path).sha256 == entry.sha256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "nowhere.json"], "nowhere.json: file: expected a readable file"),
        (["solve", "no-such-name"], "expected an instance file or the name of a library instance"),
        (["solve", "INSTANCE", "--method", "magic"], "expected a method among on-demand"),
        (["solve", "INSTANCE", "--seed", "x"], "Invalid value for '--seed'"),
        (["solve", "INSTANCE", "--nope"], "No such option: --nope"),
        (["solve", "INSTANCE", "-o", "/nowhere/plan.json"], "expected the folder /nowhere to exist"),
        (["instances", "show", "no-such-name"], "`prescope instances list`"),
        (["instances", "list", "disc"], "expected a set among"),
        (["instances", "verify", "x.json", "--set", "disk"], "got both"),
        (["inspect", "nowhere.json"], "expected a file, got none"),
        (["inspect", "INSTANCE", "--layer", "0"], "expected a file with steps for --layer"),
        (["inspect", "INSTANCE", "--step", "0"], "expected a file with steps, got instance"),
        (["inspect", "INSTANCE", "--perfetto", "x.json"], "expected a file with steps for --perfetto"),
        (["inspect", "INSTANCE", "--program", "x.json"], "expected a plan for --program"),
        (
            ["inspect", "PLAN", "--instance", "INSTANCE", "--torch-profile", "x"],
            "expected --perfetto FILE with",
        ),
        (["inspect", "PLAN", "--instance", "INSTANCE", "--layer", "99"], "expected --layer in [0, "),
        (["inspect", "PLAN", "--instance", "INSTANCE", "--layer", "0", "--layers", "0:1"], "got both"),
        (["inspect", "PLAN"], "name its file with --instance"),
        (["inspect", "PLAN", "--instance", "INSTANCE", "--layers", "9:1"], "expected --layers FIRST:LAST"),
        (["inspect", "PLAN", "--instance", "INSTANCE", "--layers", "a"], "expected --layers FIRST:LAST"),
        (["instances", "build", "nowhere.npz", "-o", "out"], "nowhere.npz"),
        (["instances", "build", "nowhere.npz", "-o", "out", "--phase", "x"], "among prefill, decode"),
        (["run", "no-such-model"], "expected a file of prompts"),
        (["run", "tiny", "--recording", "run.txt"], "ending in .json"),
        (["run", "tiny", "--policies", "dp,dp"], "expected distinct policies"),
        (["run", "tiny", "--batch", "65"], "expected at most 64"),
        (["run", "tiny", "--prompts", "nowhere.txt"], "nowhere.txt"),
        (["record", "tiny", "-o", "trace.json"], "ending in .npz"),
        (["frobnicate"], "No such command 'frobnicate'"),
    ],
)
def test_wrong_input_is_one_clear_line(
    refusal: Refusal, answer: Answer, instance_path: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    plan = tmp_path / "plan.json"
    answer(Solve, "solve", instance_path, "-o", plan, "--method", "cpu-only")
    places = {"INSTANCE": instance_path, "PLAN": plan}
    given = [places.get(argument, argument) for argument in arguments]
    assert message in refusal(*given)
    # The same as JSON: the error is the answer.
    failure = answer(Failure, *given, code=2)
    assert message in failure.error.message


def test_a_plan_is_not_shown_on_another_instance(
    capsys: pytest.CaptureFixture[str], instance_path: Path, tmp_path: Path
) -> None:
    plan, other = tmp_path / "plan.json", tmp_path / "other.json"
    assert main(["solve", str(instance_path), "-o", str(plan), "--json"]) == 0
    file = read_instance(instance_path)
    write_instance(other, replace(file, instance=replace(file.instance, slots=file.instance.slots + 1)))
    assert main(["inspect", str(plan), "--instance", str(other)]) == 2
    assert "with checksum" in capsys.readouterr().err


def test_truncated_and_foreign_json(refusal: Refusal, tmp_path: Path) -> None:
    broken, foreign = tmp_path / "broken.json.gz", tmp_path / "foreign.json"
    broken.write_bytes(gzip.compress(b'{"format": "prescope-plan"}')[:-5])
    foreign.write_text('{"hello": 1}')
    assert str(broken) in refusal("inspect", broken)
    assert "name a file that prescope wrote" in refusal("inspect", foreign)


def test_a_mistake_of_our_own_is_not_disguised(monkeypatch: pytest.MonkeyPatch, instance_path: Path) -> None:
    def broken(name: str) -> None:
        raise TypeError("a bug")

    monkeypatch.setattr("prescope.commands.sources.open_instance", broken)
    with pytest.raises(TypeError, match="a bug"):
        main(["solve", str(instance_path)])


def test_an_interruption_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], instance_path: Path, tmp_path: Path
) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("os.fsync", interrupt)
    assert main(["solve", str(instance_path), "-o", str(tmp_path / "plan.json"), "--json"]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_a_reader_that_has_enough_is_no_error(instance_path: Path) -> None:
    command = f"{sys.executable} -m prescope solve {instance_path} --method cpu-only --json | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("prescope ")


def test_solving_time_does_not_include_loading(monkeypatch: pytest.MonkeyPatch, instance_path: Path) -> None:
    calls: list[str] = []
    monkeypatch.setattr(prescope.commands.solve, "_warm_up", calls.append)
    assert main(["solve", str(instance_path), "--method", "cpu-only", "--json"]) == 0
    assert calls == ["cpu-only"]
