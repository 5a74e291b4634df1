"""`import prescope` and `prescope --help` load nothing heavy; every public name is there when asked for."""

import subprocess
import sys

import pytest

import prescope
from prescope import _ROOM_OF

HEAVY = ("torch", "ortools", "numba", "numpy", "transformers", "matplotlib", "msgspec", "rich", "networkx")


def loaded_by(code: str) -> set[str]:
    """Heavy packages in memory after running code in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint('\\n'.join(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if line in HEAVY}


def test_importing_the_package_is_light() -> None:
    assert loaded_by("import prescope") == set()


@pytest.mark.parametrize(
    "arguments", [["--help"], ["instances", "--help"], ["solve", "--help"], ["--version"]]
)
def test_help_is_light(arguments: list[str]) -> None:
    assert loaded_by(f"from prescope.cli import main\nmain({arguments})") == set()


def test_every_public_name_exists() -> None:
    assert sorted(prescope.__all__) == prescope.__all__ == sorted(_ROOM_OF)
    for name in prescope.__all__:
        assert getattr(prescope, name) is not None
        assert name in dir(prescope)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'prescope' has no attribute 'solver_of_everything'"):
        _ = prescope.solver_of_everything
