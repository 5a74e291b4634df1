"""What a routing-only predictor looks at."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.checks import require_finite, require_int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingOnlySettings:
    """Inputs and penalty of the linear heads.

    Parameters
    ----------
    horizons
        Layers ahead that are predicted, at most the model's layers; past the last layer they go on into the
        sequence's next token.
    window
        Latest gates of the sequence that are looked at, at most the model's layers; ``None`` is all layers,
        at most 24. The cost of a prediction grows with it.
    weights
        Whether routing weights are looked at beside the choices; without recorded ones never.
    previous
        Whether the target layer's last choice is looked at where it is older than the window.
    decays
        What is left of each moving average of the target layer after one token; none for no average.
    penalty
        Weight of the squared coefficients in the least squares.
    blank_share
        Share of training tokens that are shown a second time without their sequence's past, as at the
        start of a sequence and in a prompt.
    """

    horizons: int = 8
    window: int | None = None
    weights: bool = True
    previous: bool = True
    decays: tuple[float, ...] = (0.5, 0.8, 0.95)
    penalty: float = 10.0
    blank_share: float = 0.1

    def __post_init__(self) -> None:
        require_int("horizons", self.horizons, 1)
        if self.window is not None:
            require_int("window", self.window, 1)
        for decay in self.decays:
            if not 0 <= decay < 1:
                raise ValueError(f"expected decays in [0, 1), got {decay}")
        require_finite("penalty", self.penalty, 1e-6)
        if not 0 <= self.blank_share <= 1:
            raise ValueError(f"expected blank_share in [0, 1], got {self.blank_share}")

    def window_of(self, layers: int) -> int:
        """Gates looked at in a model of ``layers`` MoE layers."""
        return min(layers, 24 if self.window is None else self.window)

    def horizons_of(self, layers: int) -> int:
        """Layers ahead predicted in a model of ``layers`` MoE layers."""
        return min(layers, self.horizons)


RIDGE = RoutingOnlySettings(window=4, weights=False, decays=())
"""The common baseline: the last four gates of the token, and what the previous token chose."""
