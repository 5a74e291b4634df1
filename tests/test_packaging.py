"""What lies in the rooms is what a wheel carries, and the type check sees all of it."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
from setuptools.dist import Distribution

ROOT = Path(__file__).resolve().parent.parent
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS: dict[str, str] = CONFIG["tool"]["setuptools"]["package-dir"]


def package_entries() -> list[Path]:
    """Return every file in the rooms that belongs to the project."""
    return [
        path
        for folder in FOLDERS.values()
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    ]


def wheel_sources(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Return the files setuptools would put into a wheel."""
    monkeypatch.chdir(ROOT)
    packages = runpy.run_path("setup.py", run_name="setup")["packages"]()
    distribution = Distribution({"packages": packages, "script_name": "setup.py"})
    distribution.parse_config_files()
    command = distribution.get_command_obj("build_py")
    command.ensure_finalized()
    return {(ROOT / source).resolve() for source in command.get_output_mapping().values()}


def test_every_folder_with_code_is_a_package() -> None:
    lacking = {
        str(path.parent.relative_to(ROOT))
        for path in package_entries()
        if path.suffix == ".py" and not (path.parent / "__init__.py").exists()
    }
    assert lacking == set(), "an __init__.py is missing: these folders would not be installed"


def test_wheel_carries_every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {str(path.relative_to(ROOT)) for path in package_entries()} - {
        str(path.relative_to(ROOT)) for path in wheel_sources(monkeypatch)
    }
    assert missing == set(), "not matched by [tool.setuptools.package-data]"


def test_constraints_pin_every_requirement_exactly() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    names = {name.lower().replace("_", "-") for name in pins}
    project = CONFIG["project"]
    wanted = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted += extra
    asked = {re.split(r"[\[<>=!~; ]", requirement)[0].lower() for requirement in wanted}
    assert asked - names == set()
    assert all("+" not in version for version in pins.values()), "a local tag would exclude other builds"


def test_type_check_counts_files_and_reads_mypys_count(tmp_path: Path) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "typecheck.py"), run_name="typecheck")
    (tmp_path / "face").mkdir()
    (tmp_path / "room" / "below").mkdir(parents=True)
    for place in ("face/__init__.py", "room/__init__.py", "room/below/__init__.py", "room/below/notes.txt"):
        (tmp_path / place).touch()
    files = tool["package_files"](tmp_path, {"pkg": "face", "pkg.room": "room"})
    assert files == {
        "pkg/__init__.py": "face/__init__.py",
        "pkg/room/__init__.py": "room/__init__.py",
        "pkg/room/below/__init__.py": "room/below/__init__.py",
    }
    assert tool["folders_without_init"](files) == []
    assert tool["folders_without_init"]({**files, "pkg/bare/x.py": "face/bare/x.py"}) == ["face/bare"]
    tool["build_tree"](files, tmp_path, tmp_path / "tree")
    assert (tmp_path / "tree/pkg/room/below/__init__.py").resolve() == tmp_path / "room/below/__init__.py"
    assert tool["checked_files"]("Success: no issues found in 1 source file\n") == 1
    assert tool["checked_files"]("Found 2 errors in 1 file (checked 17 source files)\n") == 17
    assert tool["checked_files"]("mypy: can't find package 'prescope'\n") is None
