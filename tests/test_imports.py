"""torch and ortools share native libraries badly on some builds: both import orders must work and solve."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SOLVE = """
model = cp_model.CpModel()
x = model.new_int_var(0, 9, "x")
y = model.new_int_var(0, 9, "y")
model.add(2 * x + y <= 12)
model.maximize(x + 2 * y)
solver = cp_model.CpSolver()
solver.parameters.num_workers = 1
assert solver.solve(model) == cp_model.OPTIMAL
assert (solver.value(x), solver.value(y)) == (1, 9)
assert torch.ones(3, 4).matmul(torch.ones(4, 2)).sum().item() == 24.0
print("solved")
"""

TORCH = "import torch"
ORTOOLS = "from ortools.sat.python import cp_model"


@pytest.mark.parametrize("order", [(TORCH, ORTOOLS), (ORTOOLS, TORCH)], ids=["torch first", "ortools first"])
def test_torch_and_ortools_in_either_order(order: tuple[str, str]) -> None:
    code = "\n".join([*order, SOLVE])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "solved"), done.stderr


def test_installed_rooms_are_those_of_this_checkout() -> None:
    rooms = ("formulation", "instances", "solver", "predictor", "runtime")
    code = f"import importlib; [print(importlib.import_module('prescope.' + r).__file__) for r in {rooms}]"
    # From elsewhere: the current folder must not be what makes it work.
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(ROOT / room / "__init__.py") for room in rooms]
