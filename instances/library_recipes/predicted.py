"""Set ``predicted-vs-true``: what a predictor said beforehand beside what came."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from prescope.formulation import Demand, PredictedDemand
from prescope.formulation.checks import require_finite, require_int
from prescope.formulation.demand import FloatArray
from prescope.instances.instance_file import InstanceFile
from prescope.instances.library_index import library_root
from prescope.instances.library_recipes.sources import fitted_instances, fitted_shares, tiny_instances

PREDICTIONS = "recordings/tiny-predictions.npz"
PROBABILITY_UNIT = 1e-4
TOKENS_UNIT = 1e-3
_MACHINE = "a100-pcie4"
_DECIMALS = 4
# Model, machine, batch, slots, horizons.
_SYNTHETIC = (
    ("gpt-oss-20b", "a100-pcie4", 1, 8, 4),
    ("gpt-oss-20b", "rtx4090-desktop", 8, 4, 4),
    ("qwen3-30b-a3b", "h100-pcie5", 1, 8, 2),
    ("mixtral-8x7b", "h100-pcie5", 4, 2, 4),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseModel:
    """A predictor that names experts, right with a probability that falls with the horizon.

    Every assignment of a token to an expert is kept with probability ``recall ** horizon`` and otherwise goes
    to an expert drawn by popularity: the counts *named*. A calibrated predictor says of them what
    `prescope.predictor.StaleGate` says of the experts that its gate named, with the true precision and the
    popularity; an over-confident one takes them for certain.

    Parameters
    ----------
    name
        For names of instances.
    recall
        Share kept per layer of horizon, in [0, 1].
    calibrated
        Whether it knows how often it is wrong.
    """

    name: str
    recall: float
    calibrated: bool

    def __post_init__(self) -> None:
        require_finite("recall", self.recall, 0.0)
        if self.recall > 1:
            raise ValueError(f"expected recall in [0, 1], got {self.recall}")

    def predict(self, demand: Demand, shares: FloatArray, horizons: int, seed: int) -> PredictedDemand:
        """Predict a batch; ``shares``, ``[layers, experts]``, of tokens that choose each expert."""
        require_int("horizons", horizons, 1)
        rng = np.random.Generator(np.random.PCG64([seed, 77]))
        expected = np.zeros((horizons, demand.layers, demand.experts))
        probability = np.zeros_like(expected)
        tokens = demand.batch_tokens
        for horizon in range(1, horizons + 1):
            kept = self.recall**horizon
            for layer in range(demand.layers):
                share = np.clip(shares[layer], 0.0, 1.0)
                stay = rng.binomial(demand.counts[layer], kept)
                lost = int(demand.counts[layer].sum() - stay.sum())
                named = np.minimum(stay + rng.multinomial(lost, share / share.sum()), tokens)
                at = (horizon - 1, layer)
                if not self.calibrated:
                    expected[at], probability[at] = named, named > 0
                    continue
                floor = (1 - kept) * share
                right = np.minimum(1.0, kept + floor)
                expected[at] = named * right + (tokens - named) * floor
                probability[at] = 1 - (1 - right) ** named * (1 - floor) ** (tokens - named)
        return PredictedDemand(
            probabilities=probability.round(_DECIMALS),
            expected_tokens=expected.round(_DECIMALS),
            source=f"noise model {self.name}: recall {self.recall:g} per layer of horizon, "
            f"{'calibrated' if self.calibrated else 'taken for certain'}, seed {seed}",
        )


NOISE = (
    NoiseModel(name="good", recall=0.95, calibrated=True),
    NoiseModel(name="fair", recall=0.8, calibrated=True),
    NoiseModel(name="certain", recall=0.8, calibrated=False),
)


def tiny_predictions(
    root: str | os.PathLike[str] | None = None,
) -> dict[tuple[str, int, int], PredictedDemand]:
    """What real predictors said of the tiny model's steps, by predictor, batch and step."""
    path = os.path.join(library_root() if root is None else root, PREDICTIONS)
    with np.load(path, allow_pickle=False) as arrays:
        cases = json.loads(str(arrays["meta"]))["cases"]
        probabilities = _scaled(arrays["probabilities"], PROBABILITY_UNIT, 4)
        expected = _scaled(arrays["expected_tokens"], TOKENS_UNIT, 3)
    return {
        (case["predictor"], case["batch"], case["step"]): PredictedDemand(
            probabilities=probabilities[number],
            expected_tokens=expected[number],
            source=f"{case['predictor']}, recorded while the tiny model ran",
        )
        for number, case in enumerate(cases)
    }


def _scaled(array: npt.NDArray[np.generic], unit: float, decimals: int) -> FloatArray:
    scaled: FloatArray = (array.astype(np.float64) * unit).round(decimals)
    return scaled


def predicted_set() -> Iterator[InstanceFile]:
    """Real predictors on real routing, and the noise models on fitted routing."""
    files: dict[int, dict[int, InstanceFile]] = {}
    for (predictor, batch, step), predicted in tiny_predictions().items():
        if batch not in files:
            made = tiny_instances(_MACHINE, batch)
            files[batch] = {int(file.instance.name.rpartition("-t")[2]): file for file in made}
        file = files[batch][step]
        yield _with(file, f"{file.instance.name}-{predictor}", predicted)
    for model, machine, batch, slots, horizons in _SYNTHETIC:
        for number, file in enumerate(fitted_instances(model, machine, batch, slots=slots)):
            for noise in NOISE:
                predicted = noise.predict(file.instance.demand, fitted_shares(model), horizons, seed=number)
                yield _with(file, f"{file.instance.name}-{noise.name}", predicted)


def _with(file: InstanceFile, name: str, predicted: PredictedDemand) -> InstanceFile:
    instance = replace(file.instance, name=name, predicted=predicted)
    notes = f"{file.provenance.notes}; predicted by {predicted.source}"
    return replace(file, instance=instance, provenance=replace(file.provenance, notes=notes))
