"""Who may import whom (docs/architecture.md): every file is held to it, and the checker is seen to bite."""

import tomllib
from pathlib import Path

import pytest
from import_arrows import MAY_IMPORT, ROOMS, violations

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ("tests", "benchmarks", "tools", "docs")


def folder_of(room: str) -> Path:
    return ROOT / room


def module_name(path: Path, room: str) -> str:
    parts = path.relative_to(folder_of(room)).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(["prescope", *([] if room == "prescope" else [room]), *parts])


def report(paths: list[Path], room: str | None) -> list[str]:
    found = []
    for path in paths:
        module = module_name(path, room) if room else None
        source = path.read_text(encoding="utf-8")
        broken = violations(source, module=module, is_package=path.name == "__init__.py")
        found += [f"{path.relative_to(ROOT)}:{one.line}: {one.message}" for one in broken]
    return found


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_rooms_keep_the_arrows(room: str) -> None:
    paths = sorted(folder_of(room).rglob("*.py"))
    assert paths, f"no Python file in {room}/"
    assert report(paths, room) == []


def test_nothing_outside_the_package_imports_a_bare_room() -> None:
    paths = [path for folder in OUTSIDE for path in sorted((ROOT / folder).rglob("*.py"))]
    assert Path(__file__).resolve() in paths
    assert report(paths, None) == []


def test_the_arrows_speak_of_the_mapped_folders() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    mapped = config["tool"]["setuptools"]["package-dir"]
    assert mapped == {"prescope": "prescope"} | {f"prescope.{room}": room for room in ROOMS}
    banned = config["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert set(banned) == ROOMS


BROKEN = {
    "arrow reversed": ("prescope.formulation.cost", "from prescope.instances import load"),
    "arrow reversed, plain import": ("prescope.instances.read", "import prescope.solver.dp"),
    "siblings": ("prescope.solver.dp", "from prescope.predictor.oracle import Oracle"),
    "siblings, other way": ("prescope.predictor.oracle", "import prescope.solver as s"),
    "room taken from the face": ("prescope.predictor.oracle", "from prescope import runtime"),
    "lazy": ("prescope.solver.dp", "def f():\n    from prescope.runtime import execute\n"),
    "for types only": (
        "prescope.instances.read",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from prescope.runtime import Trace\n",
    ),
    "by name": ("prescope.solver.dp", "import importlib\nimportlib.import_module('prescope.runtime')"),
    "by builtin": ("prescope.solver.dp", "m = __import__('prescope.runtime')"),
    "the face": ("prescope.runtime.attach", "import prescope"),
    "the face's function": ("prescope.runtime.attach", "from prescope import attach"),
    "the face's module": ("prescope.runtime.attach", "from prescope.report.gantt import draw"),
    "relative": ("prescope.solver.dp", "from ..predictor import oracle"),
    "relative, one up": ("prescope.solver.rules.fiddler", "from ... import runtime"),
    "bare": ("prescope.runtime.attach", "import solver"),
    "bare, from": ("prescope.runtime.attach", "from solver.dp import solve"),
    "bare, by name": ("prescope.runtime.attach", "import importlib\nimportlib.import_module('solver')"),
    "bare, outside": (None, "from instances import load"),
    "heavy formulation": ("prescope.formulation.cost", "import torch"),
    "heavy formulation, lazy": ("prescope.formulation.cost", "def f():\n    from ortools.sat import x\n"),
}

ALLOWED = {
    "down": ("prescope.runtime.attach", "from prescope.solver import solve\nimport prescope.formulation"),
    "same room": ("prescope.solver.dp", "from prescope.solver.base import Solver"),
    "relative, same room": ("prescope.solver.rules.own", "from ..base import Solver\nfrom . import common"),
    "foreign packages": ("prescope.solver.dp", "import networkx\nfrom ortools.sat.python import cp_model"),
    "model builder": ("prescope.formulation.models.cp_sat", "from ortools.sat.python import cp_model"),
    "light formulation": ("prescope.formulation.cost", "import math, numpy\nfrom numba import njit"),
    "the face": ("prescope.cli", "from prescope.runtime import attach\nfrom prescope.report import gantt"),
    "a name inside a text": ("prescope.solver.dp", "text = 'import solver'"),
    "a longer name": ("prescope.solver.dp", "import solverlib, runtimes"),
    "outside": (None, "from prescope.runtime import attach\nimport prescope.cli"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_checker_refuses(case: str) -> None:
    module, source = BROKEN[case]
    assert violations(source, module=module), f"not noticed in {module}: {source}"


@pytest.mark.parametrize("case", ALLOWED)
def test_checker_allows(case: str) -> None:
    module, source = ALLOWED[case]
    assert violations(source, module=module) == []


def test_checker_resolves_relative_imports_of_a_package() -> None:
    assert violations("from . import runtime", module="prescope.solver.dp") == []
    assert violations("from .. import runtime", module="prescope.solver.dp")
    assert violations("from .. import runtime", module="prescope.solver", is_package=True)
    assert violations("from ..runtime import x", module="prescope.solver", is_package=True)
    assert violations("from . import dp", module="prescope.solver", is_package=True) == []


def test_checker_names_the_line() -> None:
    found = violations("import math\n\nimport solver\n", module="prescope.runtime.attach")
    assert [(one.line, "prescope.solver" in one.message) for one in found] == [(3, True)]
