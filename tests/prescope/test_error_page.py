"""docs/errors.md: every message is what the command says, every class of error is listed."""

import ast
import re
import shlex
from pathlib import Path

import pytest
from documented_examples import examples
from example_traces import example_trace

from prescope.cli import main
from prescope.instances import write_trace

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"
FOLDERS = ("formulation", "instances", "solver", "predictor", "runtime", "prescope")


def promised() -> list[tuple[str, str]]:
    """(command, message) of every example."""
    pairs = []
    for language, text in examples(PAGE):
        if language == "text":
            lines = text.splitlines()
            assert len(lines) % 2 == 0
            pairs += [(lines[i].removeprefix("$ "), lines[i + 1]) for i in range(0, len(lines), 2)]
    return pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the page speaks of."""
    folder = tmp_path_factory.mktemp("errors")
    plan = folder / "plan.json"
    assert main(["solve", "qwen3-30b-a3b@a100-pcie4-b1-s0", "-o", str(plan)]) == 0
    text = plan.read_text()
    (folder / "cut.json").write_text(text[:300])
    altered = re.sub(r'"makespan_ns":\s*\d+', '"makespan_ns":1', text)
    assert altered != text
    (folder / "altered.json").write_text(altered)
    other = ["solve", "qwen3-30b-a3b@a100-pcie4-b8-s0", "-o", str(folder / "other.json")]
    assert main([*other, "--method", "presched"]) == 0
    write_trace(folder / "recorded.npz", example_trace(lengths=((0, 9),), layers=6, everything=False))
    (folder / "log.csv").write_text("token,layer,expert\n0,0,1\n")
    return folder


@pytest.mark.parametrize(("command", "message"), promised(), ids=lambda text: text[:60])
def test_message(
    command: str,
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    program, *arguments = shlex.split(command)
    assert program == "prescope"
    assert main(arguments) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    pattern = ".+".join(re.escape(part) for part in message.split("..."))
    assert re.fullmatch(pattern, said), said
    assert sorted(folder.iterdir()) == before


def error_classes() -> set[str]:
    """Names of the classes of errors that the package defines."""
    found: dict[str, set[str]] = {}
    for room in FOLDERS:
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                    found[node.name] = found.get(node.name, set()) | bases
    errors = {"ValueError", "RuntimeError", "OSError", "Exception", "KeyError", "TypeError"}
    while True:
        more = {name for name, bases in found.items() if bases & errors} - errors
        if not more:
            return {name for name in errors if name in found}
        errors |= more


def test_every_class_is_listed() -> None:
    classes = error_classes()
    assert {"InstanceFileError", "StallError"} <= classes
    table = PAGE.read_text(encoding="utf-8").partition("## Messages")[0]
    assert {name for name in classes if f"`{name}`" not in table} == set()
