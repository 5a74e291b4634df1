"""Methods of other packages: found, checked, and never in the way of the built-in ones."""

import logging
from pathlib import Path

import pytest

from prescope.solver import get_method, methods
from prescope.solver.plugins import PluginError

GOOD = """
class Good:
    name = "good"

    def plan(self, instance, *, limits, seed, hint):
        raise NotImplementedError


READY = Good()
NAMELESS = type("Nameless", (), {"plan": Good.plan})
NO_METHOD = object
OTHER = type("Other", (Good,), {"name": "other"})


def refusing():
    raise OSError("no licence")
"""
BUILT_IN = ("on-demand", "dp", "cp-sat")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Pretend that a package with entry points is installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "foreign_solvers.py").write_text(GOOD)
    (tmp_path / "leaving_solvers.py").write_text("raise SystemExit(3)\n")

    def make(package: str, **entries: str) -> None:
        folder = tmp_path / f"{package}-2.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0\n")
        lines = [f"{name.replace('_', '-')} = {value}" for name, value in entries.items()]
        (folder / "entry_points.txt").write_text("\n".join(["[prescope.solvers]", *lines, ""]))

    return make


@pytest.mark.parametrize("value", ["foreign_solvers:Good", "foreign_solvers:READY"])
def test_a_class_or_an_object_becomes_a_method(install, value: str) -> None:
    before = methods()
    install("good-package", good=value)
    assert methods() == (*before, "good")
    assert get_method("good").name == "good"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("no_such_module:x", "ModuleNotFoundError"),
        ("foreign_solvers:missing", "AttributeError"),
        ("leaving_solvers:x", "SystemExit"),
        ("foreign_solvers:refusing", "OSError: no licence"),
        ("foreign_solvers:NO_METHOD", "to have plan"),
        ("foreign_solvers:NAMELESS", "to have the name 'good', got None"),
        ("foreign_solvers:OTHER", "to have the name 'good', got 'other'"),
    ],
)
def test_a_broken_one_names_its_package_and_spares_the_others(install, value: str, problem: str) -> None:
    install("bad-package", good=value)
    with pytest.raises(PluginError, match="bad-package 2.0") as refused:
        get_method("good")
    assert problem in str(refused.value)
    assert "good" in methods()
    for name in BUILT_IN:
        assert get_method(name).name == name


def test_a_built_in_name_stays_built_in(install, caplog: pytest.LogCaptureFixture) -> None:
    built_in = get_method("dp")
    install("greedy-package", dp="foreign_solvers:Good", good="foreign_solvers:Good")
    with caplog.at_level(logging.WARNING, "prescope"):
        assert methods().count("dp") == 1 and "good" in methods()
    assert "greedy-package 2.0" in caplog.text and "'dp'" in caplog.text
    assert get_method("dp") is built_in


def test_two_packages_with_one_name_are_both_named(install) -> None:
    install("first-package", good="foreign_solvers:Good")
    install("second-package", good="foreign_solvers:READY")
    assert methods().count("good") == 1
    with pytest.raises(PluginError, match="first-package 2.0 and second-package 2.0"):
        get_method("good")


def test_an_unknown_name_lists_foreign_ones_too(install) -> None:
    install("good-package", good="foreign_solvers:Good")
    with pytest.raises(ValueError, match="expected a method among .*good, got 'best'"):
        get_method("best")
