"""Which experts stay in a pool of device rows when others must come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.runtime.control.mixed_average import MixedAverageResidency

# Score of rows that go last, whatever else is asked of them.
_NEVER = 1e18


class Residency(Protocol):
    """Scores experts; when a row is needed, the lowest-scored one that nobody needs now is given up."""

    @property
    def name(self) -> str:
        """Name in the registry."""
        ...

    def observe(self, layer: int, counts: IntArray) -> None:
        """A gate has spoken; ``counts`` are its tokens, int64 ``[experts]``."""
        ...

    def scores(self, layer: int) -> FloatArray:
        """Worth of each expert's row after the gate of ``layer``, float64 ``[layers, experts]``."""
        ...

    def quota(self, rows: int) -> int | None:
        """Most rows of one layer in a pool of ``rows``; ``None`` for one pool over all layers."""
        ...


class StaticResidency:
    """Keeps the most popular experts; the others stream through a few rows.

    Parameters
    ----------
    popularity
        Share of each expert, float ``[layers, experts]``.
    rows
        Rows of the pool.
    scratch
        Rows left for streaming.
    """

    name = "static"

    def __init__(self, popularity: FloatArray, *, rows: int, scratch: int) -> None:
        flat = np.argsort(-popularity, axis=None, kind="stable")[: max(0, rows - scratch)]
        self._scores = np.asarray(popularity, dtype=np.float64).copy()
        self._scores.reshape(-1)[flat] += _NEVER

    def observe(self, layer: int, counts: IntArray) -> None:
        """Nothing changes; see `Residency.observe`."""

    def scores(self, layer: int) -> FloatArray:
        """Popularity, the chosen ones above all; see `Residency.scores`."""
        return self._scores

    def quota(self, rows: int) -> int | None:
        """One pool; see `Residency.quota`."""
        return None


class RecencyResidency:
    """Least recently used goes first, in one pool or in equal shares per layer.

    Parameters
    ----------
    layers, experts
        Shape of the model.
    per_layer
        Whether every layer has its own share of the rows.
    """

    def __init__(self, *, layers: int, experts: int, per_layer: bool) -> None:
        self.name = "layer-lru" if per_layer else "lru"
        self._layers = layers
        self._per_layer = per_layer
        self._last = np.zeros((layers, experts))
        self._now = 0

    def observe(self, layer: int, counts: IntArray) -> None:
        """Stamp the activated experts; see `Residency.observe`."""
        self._now += 1
        self._last[layer, counts > 0] = self._now

    def scores(self, layer: int) -> FloatArray:
        """Time of the last use; see `Residency.scores`."""
        return self._last

    def quota(self, rows: int) -> int | None:
        """An equal share where each layer has its own; see `Residency.quota`."""
        return max(1, rows // self._layers) if self._per_layer else None


class ForwardDistanceResidency:
    """The expert expected to be idle longest goes first.

    An expert used in a step with probability ``p`` and whose layer comes up in ``d`` layers is next used
    after ``d + L (1 - p) / p`` layers on average. ``p`` is a moving average of its use.

    Parameters
    ----------
    popularity
        Starting probabilities of use in a step, float ``[layers, experts]``.
    decay
        Weight of one step in the moving average.
    """

    name = "moving-average"

    def __init__(self, popularity: FloatArray, *, decay: float = 0.1) -> None:
        self._use = np.clip(np.asarray(popularity, dtype=np.float64), 1e-3, 1.0)
        self._decay = decay

    def observe(self, layer: int, counts: IntArray) -> None:
        """Move the layer's averages; see `Residency.observe`."""
        self._use[layer] += self._decay * ((counts > 0) - self._use[layer])

    def scores(self, layer: int) -> FloatArray:
        """Expected distance to the next use, negated; see `Residency.scores`."""
        layers = self._use.shape[0]
        ahead = (np.arange(layers) - layer - 1) % layers + 1
        use = np.clip(self._use, 1e-6, 1.0)
        distance: FloatArray = ahead[:, None] + layers * (1.0 - use) / use
        return -distance

    def quota(self, rows: int) -> int | None:
        """One pool; see `Residency.quota`."""
        return None


def residencies() -> tuple[str, ...]:
    """Names of the residency rules."""
    return tuple(_FACTORIES)


def make_residency(name: str, popularity: FloatArray, *, rows: int, scratch: int) -> Residency:
    """Build a residency rule by name.

    Raises
    ------
    ValueError
        When the name is unknown; the message lists the known ones.
    """
    if name not in _FACTORIES:
        raise ValueError(f"expected a residency among {', '.join(residencies())}, got {name!r}")
    return _FACTORIES[name](popularity, rows, scratch)


_FACTORIES: dict[str, Callable[[FloatArray, int, int], Residency]] = {
    "static": lambda popularity, rows, scratch: StaticResidency(popularity, rows=rows, scratch=scratch),
    "lru": lambda popularity, rows, scratch: RecencyResidency(
        layers=popularity.shape[0], experts=popularity.shape[1], per_layer=False
    ),
    "layer-lru": lambda popularity, rows, scratch: RecencyResidency(
        layers=popularity.shape[0], experts=popularity.shape[1], per_layer=True
    ),
    "moving-average": lambda popularity, rows, scratch: ForwardDistanceResidency(popularity),
    "mixed-average": lambda popularity, rows, scratch: MixedAverageResidency(popularity),
}
