"""Every example of the pages for the three uses and of the README runs as it stands."""

import contextlib
import io
import shlex
from pathlib import Path

import pytest
import torch
from documented_examples import commands, examples
from json_contract import DOCUMENTED
from msgspec import Struct
from msgspec.structs import fields

from prescope.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "docs/use-solver.md",
    "docs/exact-models.md",
    "docs/use-plugin.md",
    "docs/use-inspect.md",
    "docs/inspect-page.md",
    "docs/extending.md",
    "docs/recording.md",
    "docs/benchmarking.md",
    "docs/doctor.md",
    "docs/placement.md",
    "docs/explain.md",
    "docs/whatif.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    found = examples(ROOT / page)
    assert [language for language, _ in found if language in ("console", "python")]
    for language, text in found:
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, page, "exec"), {"__name__": "example"})
        elif language == "console":
            for command in commands(text):
                words = shlex.split(command)
                if words[0] == "prescope":
                    assert main(words[1:]) == 0, (command, capsys.readouterr().err)


def test_commands_other_than_prescope_are_the_two_promised() -> None:
    others = [
        command
        for page in PAGES
        for language, text in examples(ROOT / page)
        if language == "console"
        for command in commands(text)
        if not command.startswith("prescope ")
    ]
    assert set(others) <= {
        "make run",
        "make test",
        "python benchmarks/tables.py",
        "python benchmarks/picture.py",
    }


def test_links_lead_somewhere() -> None:
    import re

    for page in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md"):
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
            assert target.startswith("https://") or (page.parent / target).exists(), (page.name, target)


def test_json_page_has_a_section_for_every_answer_and_names_every_field() -> None:
    text = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    sections = {section.partition("\n")[0]: section for section in text.split("\n## ")[1:]}
    assert set(sections) == set(DOCUMENTED)
    for heading, shape in DOCUMENTED.items():
        section = sections[heading]
        for name in all_fields(shape):
            assert f"`{name}`" in section or f".{name}`" in section, (heading, name)


def all_fields(shape: type) -> set[str]:
    """Names of a shape's fields and of those of the shapes within."""
    import typing

    names: set[str] = set()
    waiting: list[object] = [shape]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, Struct):
            for field in fields(kind):
                names.add(field.name)
                waiting.append(field.type)
        else:
            waiting.extend(typing.get_args(kind))
    return names
