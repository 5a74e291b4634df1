"""Set ``horizons``: steps in a row, for rules that say who stays on the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prescope.formulation import Demand, PredictedDemand
from prescope.instances.horizon_builder import build_horizon
from prescope.instances.horizon_file import HorizonFile
from prescope.instances.library_recipes.predicted import NOISE
from prescope.instances.library_recipes.sources import (
    SEQUENCES,
    TRAINING_SEQUENCES,
    fitted_shares,
    fitted_trace,
    recipe_of,
)
from prescope.instances.synthetic_routing import ROUTING_GENERATOR

HISTORY_SEQUENCES = 12
PREDICTED_HORIZONS = 2
# Two decimals: what rounds to nothing would not be copied either, and files stay small.
_DECIMALS = 2
_PREDICTOR = next(noise for noise in NOISE if noise.name == "good")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """One horizon: whose costs, how many sequences, steps and slots, and the share of residents."""

    costs: str
    batch: int
    steps: int
    slots: int
    resident: float


_SHAPES = (
    _Shape(costs="gpt-oss-20b@rtx4090-desktop", batch=1, steps=32, slots=8, resident=0.25),
    _Shape(costs="gpt-oss-20b@rtx4090-desktop", batch=4, steps=24, slots=8, resident=0.25),
    _Shape(costs="gpt-oss-20b@rtx4090-desktop", batch=8, steps=20, slots=8, resident=0.5),
    _Shape(costs="gpt-oss-20b@rtx4090-desktop", batch=32, steps=12, slots=8, resident=0.5),
    _Shape(costs="gpt-oss-20b@a100-pcie4", batch=1, steps=32, slots=4, resident=0.1),
    _Shape(costs="gpt-oss-20b@a100-pcie4", batch=4, steps=24, slots=4, resident=0.75),
    _Shape(costs="mixtral-8x7b@h100-pcie5", batch=1, steps=32, slots=2, resident=0.25),
    _Shape(costs="mixtral-8x7b@rtx4090-desktop", batch=4, steps=24, slots=2, resident=0.5),
    _Shape(costs="olmoe-1b-7b@rtx4090-desktop", batch=1, steps=32, slots=4, resident=0.25),
    _Shape(costs="olmoe-1b-7b@v100-pcie3", batch=8, steps=16, slots=4, resident=0.25),
    _Shape(costs="deepseek-v2-lite@v100-pcie3", batch=4, steps=16, slots=4, resident=0.1),
    _Shape(costs="olmoe-1b-7b@nvme-ram", batch=1, steps=24, slots=4, resident=0.25),
)


def horizons_set() -> Iterator[HorizonFile]:
    """Fitted routing of several models, batches and shares of residents, with a noisy predictor."""
    for shape in _SHAPES:
        yield _horizon(shape)


def _horizon(shape: _Shape) -> HorizonFile:
    model = shape.costs.partition("@")[0]
    trace, shares = fitted_trace(model), fitted_shares(model)

    def predict(demand: Demand, step: int) -> PredictedDemand:
        said = _PREDICTOR.predict(demand, shares, PREDICTED_HORIZONS, seed=step)
        return PredictedDemand(
            probabilities=np.round(said.probabilities, _DECIMALS),
            expected_tokens=np.round(said.expected_tokens, _DECIMALS),
            source=said.source.partition(", seed")[0],
        )

    return build_horizon(
        trace,
        shape.costs,
        shape.batch,
        steps=shape.steps,
        slots=shape.slots,
        resident_fraction=shape.resident,
        resident_popularity=shares,
        sequences=range(TRAINING_SEQUENCES, SEQUENCES),
        history=range(HISTORY_SEQUENCES),
        predict=predict,
        name=f"{shape.costs}-r{round(100 * shape.resident)}-n{shape.slots}-b{shape.batch}-t{shape.steps}",
        generator=ROUTING_GENERATOR,
        seed=0,
        notes=f"routing parameters fitted to {recipe_of(model)}; popularity of the first "
        f"{TRAINING_SEQUENCES} sequences, none of which is in the steps",
    )
