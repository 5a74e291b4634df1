"""A linear model of the near future of an expert's use, and what it is fitted from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from prescope.formulation.checks import require_int
from prescope.formulation.demand import FloatArray, IntArray

DECAYS = (1.0, 0.5, 0.2, 0.05)
"""Weights of the newest step in the inputs: the last step itself, and moving averages."""

NEIGHBOUR = 1
"""Place in `DECAYS` of the average by which neighbouring layers are looked at."""


def distances_to(neighbours: int) -> tuple[int, ...]:
    """How far the neighbouring layers are, in the order of their inputs."""
    return (*range(-neighbours, 0), *range(1, neighbours + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlookSettings:
    """How the future is weighed and the model fitted.

    Parameters
    ----------
    discount
        Weight of a step's use against that of the step before it.
    ahead
        Steps that the future is cut off after.
    penalty
        Ridge penalty per unit of summed weight; the constant input has none.
    neighbours
        Layers on either side of an expert's own that are looked at too, by one moving average each, as it is
        known at the layer's gate: that of a layer behind it is of the step before. The first layer is taken
        as the one after the last. The model grows by twice as many experts.
    """

    discount: float = 0.8
    ahead: int = 12
    penalty: float = 1e-3
    neighbours: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.discount < 1:
            raise ValueError(f"expected discount in [0, 1), got {self.discount}")
        if self.ahead < 1:
            raise ValueError(f"expected ahead >= 1, got {self.ahead}")
        if not self.penalty > 0:
            raise ValueError(f"expected penalty > 0, got {self.penalty}")
        require_int("neighbours", self.neighbours, 0)

    def width(self, experts: int) -> int:
        """Inputs of a layer's model, the constant one included."""
        return (len(DECAYS) + 2 * self.neighbours) * experts + 1


class Inputs:
    """What the model looks at: how much each expert was used lately.

    Parameters
    ----------
    start
        Probability that a token chooses each expert, as known before, float64 ``[layers, experts]``.
    neighbours
        As of `OutlookSettings`.
    """

    def __init__(self, start: FloatArray, neighbours: int = 0) -> None:
        layers = np.arange(start.shape[0])
        self._beside = [(layers + distance) % layers.size for distance in distances_to(neighbours)]
        self._layers = layers
        self._averages = np.repeat(np.asarray(start, dtype=np.float64)[None], len(DECAYS), axis=0)
        self._before = self._averages[NEIGHBOUR].copy()

    def observe(self, use: FloatArray) -> None:
        """A step is over; ``use`` is the share of its tokens that chose each expert, as `use_of` gives it."""
        self._before = self._averages[NEIGHBOUR].copy()
        for average, decay in zip(self._averages, DECAYS, strict=True):
            average += decay * (use - average)

    def rows(self) -> FloatArray:
        """One row per layer, the last column being 1: float64 ``[layers, width]`` as of `OutlookSettings`."""
        now = self._averages[NEIGHBOUR]
        beside = [
            # At a layer's gate, the layers behind it have not spoken yet in this step.
            np.where((others <= self._layers)[:, None], now[others], self._before[others])
            for others in self._beside
        ]
        ones = np.ones((self._averages.shape[1], 1))
        return np.concatenate([*self._averages, *beside, ones], axis=1)


class OutlookSums:
    """Normal equations of all layers, filled step by step as the future of a step becomes known.

    Parameters
    ----------
    layers, experts
        Shape of the model.
    settings
        What the future is.
    """

    def __init__(self, layers: int, experts: int, settings: OutlookSettings) -> None:
        width = settings.width(experts)
        self.settings = settings
        self.weight = 0.0
        self._square = np.zeros((layers, width, width))
        self._product = np.zeros((layers, width, experts))
        self._waiting: deque[tuple[FloatArray, FloatArray]] = deque()

    def observe(self, rows: FloatArray, use: FloatArray) -> None:
        """A step is over: ``rows`` were the inputs before it, ``use`` is what it turned out to be."""
        self._waiting.append((rows, np.zeros_like(use)))
        # Each step in waiting sees this one from a different distance.
        factor = 1.0 - self.settings.discount
        for _, future in reversed(self._waiting):
            future += factor * use
            factor *= self.settings.discount
        if len(self._waiting) == self.settings.ahead:
            oldest, known = self._waiting.popleft()
            self.add(oldest[None], known[None])

    def forget_waiting(self) -> None:
        """The next step has nothing to do with those before."""
        self._waiting.clear()

    def fade(self, factor: float) -> None:
        """Let everything so far count less."""
        self._square *= factor
        self._product *= factor
        self.weight *= factor

    def copy(self) -> OutlookSums:
        """The sums as they are, without what waits for its future."""
        other = OutlookSums.__new__(OutlookSums)
        other.settings, other.weight, other._waiting = self.settings, self.weight, deque()
        other._square, other._product = self._square.copy(), self._product.copy()
        return other

    def misfit(self, coefficients: FloatArray) -> float:
        """Squared error that coefficients make here, less what is the same for all coefficients."""
        fitted = np.einsum("lij,lik,lkj->", coefficients, self._square, coefficients, optimize=True)
        return float(fitted - 2.0 * np.sum(coefficients * self._product))

    def solve(self) -> FloatArray:
        """Coefficients, float64 ``[layers, OutlookSettings.width(experts), experts]``.

        Raises
        ------
        ValueError
            When nothing was observed.
        """
        if not self.weight:
            raise ValueError("expected at least one step with a known future, got none")
        penalty: FloatArray = np.full(self._square.shape[1], self.settings.penalty * self.weight)
        penalty[-1] = 1e-9 * self.weight
        found: FloatArray = np.linalg.solve(self._square + np.diag(penalty), self._product).astype(np.float64)
        return found

    def believe(self, square: FloatArray, product: FloatArray) -> None:
        """Count what nobody observed, as one step: summed squares ``[L, W, W]``, products ``[L, W, E]``."""
        self._square = self._square + square
        self._product = self._product + product
        self.weight += 1.0

    def add(self, rows: FloatArray, futures: FloatArray) -> None:
        """Count steps with their known futures: ``[steps, layers, .]``, each with weight 1."""
        inputs = rows.transpose(1, 2, 0)
        self._square = self._square + inputs @ rows.transpose(1, 0, 2)
        self._product = self._product + inputs @ futures.transpose(1, 0, 2)
        self.weight += rows.shape[0]


def fit_outlook(
    sequences: Iterable[IntArray], start: FloatArray, settings: OutlookSettings | None = None
) -> OutlookSums:
    """Fit to recorded sequences; those that are not longer than the future teach nothing.

    Parameters
    ----------
    sequences
        Tokens per expert of each step of each sequence, int64 ``[steps, layers, experts]``.
    start
        As of `Inputs`.
    settings
        What the future is; by default as of `OutlookSettings`.

    Returns
    -------
    OutlookSums
        ``solve()`` gives the coefficients; a rule may go on from the sums.
    """
    layers, experts = start.shape
    sums = OutlookSums(layers, experts, settings or OutlookSettings())
    discount, ahead = sums.settings.discount, sums.settings.ahead
    for steps in sequences:
        known = len(steps) - ahead + 1
        if known < 1:
            continue
        inputs, rows, uses = Inputs(start, sums.settings.neighbours), [], []
        for counts in steps:
            rows.append(inputs.rows())
            uses.append(use_of(counts, start))
            inputs.observe(uses[-1])
        futures = np.zeros((known, layers, experts))
        for distance in range(ahead):
            futures += (1.0 - discount) * discount**distance * np.stack(uses[distance : distance + known])
        sums.add(np.stack(rows[:known]), futures)
    return sums


def use_of(counts: IntArray, start: FloatArray) -> FloatArray:
    """Probability that a token of a step chose each expert, ``[layers, experts]``.

    How many experts a token chooses is what ``start`` adds up to in a layer.
    """
    use: FloatArray = counts * (start.sum(axis=1) / np.maximum(1, counts.sum(axis=1)))[:, None]
    return use
