"""What is no file of prescope, or makes no sense, is refused by name and never written over."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_sweeps import sweep
from inspected_files import Waste, opened

from prescope.cli import main
from prescope.inspection import ViewKind, open_view
from prescope.inspection.perfetto import write_perfetto


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "wrote in JSON, got"),
        (b"\xff\xfe", "wrote in JSON, got"),
        (b"[1]", "got other JSON"),
        (b"{}", "name a file that prescope wrote"),
        (b'{"format": "their-plan"}', "the format 'their-plan'"),
        (b'{"format": "prescope-plan"}', "field|version"),
        (b'{"format": "prescope-recording", "version": 1}', "prescope"),
        (b'{"format": "prescope-program/9"}', "program"),
        (b'{"traceEvents": []}', "written by prescope"),
        (b'{"summary": [], "origins": []}', "expected a whole answer of --json, got one without 'runs'"),
        (b'{"predictors": [], "judged_sequences": 1}', "expected a whole answer of --json"),
        (b"[" * 100_000, "wrote in JSON, got"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        open_view(path)
    assert "other.json" in str(caught.value) or "program" in str(caught.value)


def test_truncated_files_are_refused(kinds: dict[ViewKind, Path], tmp_path: Path) -> None:
    whole = gzip.compress(kinds[ViewKind.RECORDING].read_bytes())
    path = tmp_path / "cut.json.gz"
    for length in (0, 4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.json\.gz"):
            open_view(path)


def test_what_a_plan_is_for_must_be_named(kinds: dict[ViewKind, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="with --instance"):
        open_view(kinds[ViewKind.PLAN])
    with pytest.raises(ValueError, match="with --instance"):
        open_view(kinds[ViewKind.HORIZON_PLAN])
    with pytest.raises(ValueError, match="instances list"):
        open_view(kinds[ViewKind.PLAN], instance="no such thing")
    with pytest.raises(ValueError, match="expected a file, got none at .*nothing of that name"):
        open_view(tmp_path / "nowhere.json")
    with pytest.raises(ValueError, match="expected rows of a benchmark, got none"):
        open_view(sweep(tmp_path / "empty", []))


def test_what_is_read_is_never_written_over(
    waste: Waste, kinds: dict[ViewKind, Path], tmp_path: Path, capsys: Any
) -> None:
    plan, instance = kinds[ViewKind.PLAN], kinds[ViewKind.INSTANCE]
    before = plan.read_bytes(), instance.read_bytes()
    named = ["inspect", str(plan), "--instance", str(instance)]
    (tmp_path / "again.json").symlink_to(plan)
    for options in (
        ["--html", str(plan)],
        ["--perfetto", str(tmp_path / "again.json")],
        ["--program", str(instance)],
        ["--html", str(tmp_path / "new"), "--perfetto", str(tmp_path / "new")],
    ):
        assert main([*named, *options]) == 2
        assert "expected other files for" in capsys.readouterr().err
    assert (plan.read_bytes(), instance.read_bytes()) == before and not (tmp_path / "new").exists()


def test_a_trace_of_several_steps_is_not_read_and_the_remedy_helps(
    kinds: dict[ViewKind, Path], tmp_path: Path
) -> None:
    step = opened(kinds, ViewKind.RECORDING).steps[0]
    path = tmp_path / "steps.json"
    write_perfetto(path, [step, replace(step, index=4)])
    with pytest.raises(ValueError, match=r"one of several.*inspect --step N"):
        open_view(path)
    write_perfetto(path, [step])
    assert open_view(path).steps[0].index == 3


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: d["predictors"][0]["batches"][0]["horizons"][0].update(recall=float("nan")), "got nan"),
        (lambda d: d["predictors"][0]["batches"][0]["horizons"][0].update(recall={"a": 1}), "got {'a': 1}"),
        (lambda d: d.update(layers=10**9), "got 1000000000 and"),
        (lambda d: d.update(layers=0), "got 0 and 1 ahead"),
        (lambda d: d["predictors"][0]["batches"][0]["cells"][0].update(horizon=10**8), "100000000 ahead"),
        (lambda d: d["predictors"][0]["batches"][0]["cells"][0].update(recall="x"), "to float: 'x'"),
    ],
)
def test_answers_that_make_no_sense_are_refused(
    kinds: dict[ViewKind, Path], spoil: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = kinds[ViewKind.PREDICTION]
    document = json.loads(path.read_text())
    spoil(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message) as caught:
        open_view(path)
    assert str(path) in str(caught.value)
