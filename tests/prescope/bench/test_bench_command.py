"""`prescope bench` as its users type it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench_cases import write_cases
from json_contract import BenchCheck, BenchReport, BenchRun, Failure

from prescope.bench import read_rows
from prescope.bench.row_csv import COLUMNS
from prescope.bench.row_file import ROWS
from prescope.cli import main

ROOT = Path(__file__).resolve().parents[3]
EXTERNAL = ROOT / "tests" / "data" / "external_solver"
QUICK = ("--methods", "presched,on-demand")
Answer = Callable[..., Any]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return write_cases(tmp_path)


def test_answers_as_promised(answer: Answer, files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = answer(BenchRun, "bench", *files, *QUICK, "-o", out, "--seeds", "0,2-3", "--check")
    assert (ran.folder, ran.ran, ran.runs, ran.check.checked) == (str(out), 18, 18, 18)
    assert [group.method for group in ran.summary] == ["presched", "on-demand"]
    assert {group.set for group in ran.summary} == {"files"} and ran.errors == [] == ran.violations
    again = answer(BenchRun, "bench", *files, *QUICK, "-o", out, "--seeds", "0,2-3")
    assert (again.ran, again.runs, again.check) == (0, 18, None) and again.summary == ran.summary
    checked = answer(BenchCheck, "bench", "check", out, *files)
    assert (checked.checked, checked.faults) == (18, [])
    told = answer(BenchReport, "bench", "report", out)
    assert told.summary == ran.summary and all(Path(path).stat().st_size for path in told.files)
    assert {Path(path).name for path in told.files} == {
        "report.md", "summary.csv", "gaps.png", "profile.png", "plan-times.png"
    }  # fmt: skip


def test_for_people_and_without_a_trace(capsys: pytest.CaptureFixture[str], files: list[str]) -> None:
    assert main(["bench", "run", *files, *QUICK]) == 0
    streams = capsys.readouterr()
    assert "presched" in streams.out and "to bound" in streams.out and "\x1b" not in streams.out
    assert "-o FOLDER" in streams.err


def test_a_refused_plan_is_a_negative_answer(
    answer: Answer, capsys: pytest.CaptureFixture[str], files: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    answer(BenchRun, "bench", *files, *QUICK, "-o", out)
    first = read_rows(out)[0]
    text = (out / ROWS).read_text()
    (out / ROWS).write_text(text.replace(f",{first.makespan_ns},", f",{first.makespan_ns - 1},", 1))
    checked = answer(BenchCheck, "bench", "check", out, *files, code=1)
    assert [fault.instance for fault in checked.faults] == [first.instance]
    assert main(["bench", "check", str(out), *files]) == 1
    assert "REFUSED: presched" in capsys.readouterr().out
    # Without the files the library is searched, which does not have them.
    assert len(answer(BenchCheck, "bench", "check", out, code=1).faults) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "no-such-set"], "expected a set (the library has"),
        (["bench", "nowhere.json.gz"], "nowhere.json.gz"),
        (["bench", "FILE", "--methods", "magic"], "expected a method among"),
        (["bench", "FILE", "--methods", ","], "at least one of methods"),
        (["bench", "FILE", "--limits", "soon"], "expected a limit such as"),
        (["bench", "FILE", "--seeds", "3-1"], "expected a range of --seeds"),
        (["bench", "FILE", "--seeds", "a"], "expected --seeds such as"),
        (["bench", "FILE", "--hints", "all"], "expected --hints among none, best"),
        (["bench", "FILE", "--replan", "never"], "expected --replan among gates, once"),
        (["bench", "FILE", "--engine", "slurm"], "expected --engine local or dask"),
        (["bench", "FILE", "--engine", "dask"], "expected --scheduler"),
        (["bench", "FILE", "--engine", "dask", "--scheduler", "x", "--jobs", "2"], "expected no --jobs"),
        (["bench", "FILE", "--scheduler", "x"], "expected --engine dask"),
        (["bench", "FILE", "--jobs", "0"], "--jobs"),
        (["bench", "FILE", "-o", "FILE"], "File exists"),
        (["bench", "report", "nowhere"], "runs.csv, got nowhere"),
        (["bench", "check", "nowhere"], "runs.csv, got nowhere"),
        (["bench", "--nope"], "No such option"),
    ],
)
def test_wrong_input_is_one_clear_line(
    refusal: Callable[..., str], answer: Answer, files: list[str], arguments: list[str], message: str
) -> None:
    given = [files[0] if argument == "FILE" else argument for argument in arguments]
    assert message in refusal(*given)
    assert message in answer(Failure, *given, code=2).error.message


def test_a_killed_command_goes_on(answer: Answer, files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["bench", *files, "--methods", "presched,on-demand,dp-fast", "--seeds", "0-9", "-o", str(out)]
    process = subprocess.Popen([sys.executable, "-m", "prescope", *options], stdout=subprocess.DEVNULL)
    for _ in range(1200):
        if (out / ROWS).exists() and (out / ROWS).read_bytes().count(b"\n") > 3:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    kept = len(read_rows(out))
    assert kept >= 3
    again = answer(BenchRun, *options, "--check")
    assert again.runs == 90 and again.ran == 90 - kept and again.check.faults == []


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with the package of tests/data/external_solver installed into a folder."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    shutil.copytree(EXTERNAL, source, dirs_exist_ok=True)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return {**os.environ, "PYTHONPATH": str(target)}


def prescope(external: dict[str, str], *arguments: str) -> tuple[int, Any, str]:
    done = subprocess.run(
        [sys.executable, "-m", "prescope", *arguments, "--json"], env=external, capture_output=True, text=True
    )
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_method_of_another_package(external: dict[str, str], files: list[str], tmp_path: Path) -> None:
    code, solved, _ = prescope(external, "solve", files[0], "--method", "streamer")
    assert code == 0 and solved["method"] == "streamer" and solved["plan"] is not None
    out = str(tmp_path / "out")
    code, ran, _ = prescope(external, "bench", *files, "--methods", "streamer,dp-fast", "-o", out, "--check")
    found = msgspec.convert(ran, BenchRun)
    assert code == 0 and (found.ran, found.check.checked, found.check.faults) == (6, 6, [])
    streamer, fast = found.summary
    assert streamer.method == "streamer" and streamer.gap_to_bound_mean >= fast.gap_to_bound_mean
    # Whoever checks does not need the package.
    assert main(["bench", "check", out, *files]) == 0


def test_a_method_that_breaks_is_recorded(external: dict[str, str], tmp_path: Path) -> None:
    files = write_cases(tmp_path, 9)[7:]
    out = tmp_path / "out"
    code, ran, _ = prescope(external, "bench", *files, "--methods", "moody,presched", "-o", str(out))
    assert code == 1 and ran["runs"] == 4
    (broken,) = ran["errors"]
    assert (broken["instance"], broken["method"]) == ("batch-9", "moody")
    assert broken["error"].startswith("RuntimeError: too many tokens, I am tired (at ")
    assert len(read_rows(out)) == 4


def test_the_page_tells_every_column_and_option() -> None:
    page = (ROOT / "docs" / "benchmarking.md").read_text(encoding="utf-8")
    assert [name for name in COLUMNS if f"`{name}`" not in page] == []
    for option in ("methods", "limits", "seeds", "hints", "replan", "jobs", "engine", "scheduler", "library"):
        assert f"--{option}" in page
    for option in ("accept-changes", "retry-errors", "check", "update-best"):
        assert f"--{option}" in page
