"""``prescope doctor``: answers, exit codes, refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cost_file_strategies import example_costs
from json_contract_doctor import Doctor

from prescope.cli import main
from prescope.doctor import Finding, State
from prescope.instances import write_costs

Answer = Callable[..., Any]


def test_answers_as_promised(answer: Answer, tmp_path: Path) -> None:
    given = answer(Doctor, "doctor", tmp_path)
    assert given.broken == 0
    assert given.degraded == sum(one.state == "degraded" for one in given.findings)
    assert {one.area for one in given.findings} == {
        "versions",
        "device",
        "memory",
        "processor",
        "disk",
        "costs",
    }
    names = [(one.area, one.name) for one in given.findings]
    assert len(set(names)) == len(names)
    assert {"torch", "ortools", "transformers"} <= {name for _, name in names}


def test_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "direct reads" in shown and "none at" in shown and "prescope profile" in shown


def test_a_cost_file_in_the_folder_is_judged(answer: Answer, tmp_path: Path) -> None:
    write_costs(tmp_path / "prescope-costs.json", example_costs())
    given = answer(Doctor, "doctor", tmp_path)
    assert {one.name for one in given.findings if one.area == "costs"} == {"age", "machine", "care"}


def _examined(*findings: Finding) -> Callable[..., list[Finding]]:
    return lambda folder, *, costs: list(findings)


FINE = Finding(area="disk", name="a", state=State.OK, found="good")
SLOW = Finding(area="disk", name="b", state=State.DEGRADED, found="slow", effect="waits", remedy="wait")
BAD = Finding(area="disk", name="c", state=State.BROKEN, found="gone", effect="stops", remedy="install")


@pytest.mark.parametrize(
    ("found", "strict", "code"),
    [
        ((FINE,), False, 0),
        ((FINE,), True, 0),
        ((FINE, SLOW), False, 0),
        ((FINE, SLOW), True, 1),
        ((FINE, SLOW, BAD), False, 1),
    ],
)
def test_exit_codes(
    answer: Answer,
    monkeypatch: pytest.MonkeyPatch,
    found: tuple[Finding, ...],
    strict: bool,
    code: int,
) -> None:
    monkeypatch.setattr("prescope.doctor.examine", _examined(*found))
    given = answer(Doctor, "doctor", *(["--strict"] if strict else []), code=code)
    assert len(given.findings) == len(found)


def test_refusals(refusal: Callable[..., str], tmp_path: Path) -> None:
    assert "expected a folder to examine" in refusal("doctor", tmp_path / "nowhere")
    (tmp_path / "costs.json").write_text("{}")
    assert "costs.json" in refusal("doctor", tmp_path, "--costs", tmp_path / "costs.json")
    assert "nowhere.json" in refusal("doctor", tmp_path, "--costs", tmp_path / "nowhere.json")
