"""``prescope export``: files, answers, refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from json_contract import Export

from prescope.cli import main

Answer = Callable[..., Any]


@pytest.mark.parametrize(
    ("suffix", "model"), [(".mps", "table"), (".lp", "table"), (".pb", "schedule"), (".pbtxt", "schedule")]
)
def test_export_answers_as_promised(
    answer: Answer, instance_path: Path, tmp_path: Path, suffix: str, model: str
) -> None:
    path = tmp_path / f"model{suffix}"
    written = answer(Export, "export", instance_path, "-o", path)
    assert (written.model, written.path) == (model, str(path))
    assert written.size_bytes == path.stat().st_size > 0
    assert written.columns > 0 and written.rows > 0


def test_export_of_the_fluid_model_for_people(
    capsys: pytest.CaptureFixture[str], instance_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model.lp"
    assert main(["export", str(instance_path), "-o", str(path), "--model", "fluid", "--tables", "plan"]) == 0
    assert "fluid" in capsys.readouterr().out
    assert "general" in path.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "m.txt"], "expected a file name ending in .mps"),
        (["-o", "m.mps", "--model", "schedule"], "expected .pb or .pbtxt"),
        (["-o", "m.mps", "--model", "exact"], "expected --model to be one of"),
        (["-o", "m.mps", "--tables", "exact"], "expected --tables to be one of"),
        (["-o", "nowhere/m.mps"], "expected the folder nowhere to exist, got none"),
    ],
)
def test_export_refuses(
    capsys: pytest.CaptureFixture[str],
    instance_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(instance_path), *options]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.glob("m.*")) == []
