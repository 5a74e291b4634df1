"""A plan with and without a wasted copy, and files of every kind."""

from pathlib import Path

import numpy as np
import pytest
from inspected_files import Waste, write_kinds

from prescope.formulation import CostModel, Demand, Instance, LayerPlan, LinearTime, Link, Plan, Transfer
from prescope.inspection import ViewKind


@pytest.fixture
def waste() -> Waste:
    """An instance of two layers, a plan, and the same plan behind a copy that nobody uses."""
    instance = Instance(
        name="waste",
        costs=CostModel(
            expert_bytes=(10, 10),
            link=Link(bytes_per_s=10**9, latency_ns=0),
            gpu=(LinearTime(fixed_ns=2, per_token_ns=0),),
            cpu=(LinearTime(fixed_ns=500, per_token_ns=0),),
            dense=(LinearTime(fixed_ns=3, per_token_ns=0),),
        ),
        demand=Demand(counts=np.array([[1, 0, 0], [1, 0, 0]]), batch_tokens=1),
        residents=((), ()),
        slots=2,
        lookahead=2,
    )
    layers = (LayerPlan(gpu=(0,)), LayerPlan(gpu=(0,)))
    copies = (Transfer(layer=0, expert=0), Transfer(layer=1, expert=0))
    return (
        instance,
        Plan(layers=layers, transfers=copies),
        Plan(layers=layers, transfers=(Transfer(layer=0, expert=2), *copies)),
    )


@pytest.fixture
def kinds(waste: Waste, tmp_path: Path) -> dict[ViewKind, Path]:
    """A file of every kind."""
    return write_kinds(waste, tmp_path)
