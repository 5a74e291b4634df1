"""The trained numbers of a routing-only predictor."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from prescope.formulation.checks import require_int
from prescope.predictor.calibration import ANCHORS, EVENT_KNOTS
from prescope.predictor.calibration.token_map import KNOTS
from prescope.predictor.routing_only.settings import RIDGE, RoutingOnlySettings
from prescope.predictor.split import SequenceSplit

COST_ROWS = (1, 32)
"""Batch sizes at which the cost of a prediction is measured."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoutingOnlyModel:
    """Linear heads from every gate to the coming ones, with their calibration.

    Heads go round the step: the head of source ``s`` and horizon ``h`` predicts layer ``(s + h) % layers``,
    in the sequence's next token where ``s + h >= layers``.

    Parameters
    ----------
    name, fingerprint
        Model that the routing came from, and what identifies its weights (empty when not known).
    layers, experts, top_k
        Its shape.
    settings
        What the heads look at.
    split
        Sequences of the training trace by purpose.
    prior
        Share of each expert, ``[layers, experts]``, where averages start.
    window, previous, average, bias
        Coefficients of every source, as `prescope.predictor.routing_only.scores.head_scores` takes them with
        a first axis of length ``layers``.
    knots
        Token maps, ``[layers, horizons, knots]``; see `prescope.predictor.calibration.fit_token_map`.
    changes
        Changes of the batch event; see `prescope.predictor.calibration.EventCurves`.
    cost_ns
        Measured time of the forecasts after each gate, for `COST_ROWS` tokens; empty when not measured.
    """

    name: str
    fingerprint: str
    layers: int
    experts: int
    top_k: int
    settings: RoutingOnlySettings
    split: SequenceSplit
    prior: Floats
    window: Floats
    previous: Floats
    average: Floats
    bias: Floats
    knots: Floats
    changes: Floats
    cost_ns: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        require_int("layers", self.layers, 1, 4096)
        require_int("experts", self.experts, 1, 32767)
        require_int("top_k", self.top_k, 1, self.experts)
        for name, shape in shapes(self.layers, self.experts, self.settings).items():
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float32)
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"expected finite {name} of shape {shape}, got shape {array.shape}")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if len(self.cost_ns) not in (0, self.layers) or min(map(min, self.cost_ns), default=0) < 0:
            raise ValueError(f"expected no cost_ns or pairs >= 0 of {self.layers} layers, got {self.cost_ns}")

    @property
    def kind(self) -> str:
        """``"ridge"`` for the common baseline, otherwise ``"routing-only"``."""
        return "ridge" if self.settings == RIDGE else "routing-only"

    @property
    def horizons(self) -> int:
        """Layers ahead predicted."""
        return int(self.bias.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""
        arrays = (getattr(self, one.name) for one in fields(self))
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def shapes(layers: int, experts: int, settings: RoutingOnlySettings) -> dict[str, tuple[int, ...]]:
    """Shape of every array of a model."""
    horizons, window = settings.horizons_of(layers), settings.window_of(layers)
    # A window over all layers holds the target's last choice already.
    previous = horizons if settings.previous and window < layers else 0
    channels = 2 if settings.weights else 1
    return {
        "prior": (layers, experts),
        "window": (layers, window, channels, experts, horizons * experts),
        "previous": (layers, previous, channels, experts, experts),
        "average": (layers, horizons, len(settings.decays), experts, experts),
        "bias": (layers, horizons, experts),
        "knots": (layers, horizons, KNOTS),
        "changes": (layers, horizons, len(ANCHORS), EVENT_KNOTS),
    }
