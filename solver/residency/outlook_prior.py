"""What the outlook model believes before it has seen anything: a moving average."""

from __future__ import annotations

import numpy as np

from prescope.formulation.checks import require_int
from prescope.formulation.demand import FloatArray
from prescope.solver.residency.outlook_model import DECAYS, OutlookSettings, OutlookSums

_BELIEVED = DECAYS.index(0.05)


def average_prior(
    layers: int, experts: int, *, strength: float = 8.0, settings: OutlookSettings | None = None
) -> OutlookSums:
    """Sums as if use had always been what its moving average said; what is observed moves away from that.

    Their solution says of each expert its moving average with decay 0.05, whatever others do.

    Parameters
    ----------
    layers, experts
        Shape of the model.
    strength
        How much the belief weighs, in units of summed squared inputs; between 4 and 16 made no difference on
        validation sequences.
    settings
        What the future is; by default as of `OutlookSettings`.
    """
    require_int("layers", layers, 1)
    require_int("experts", experts, 1)
    if not strength > 0:
        raise ValueError(f"expected strength > 0, got {strength}")
    settings = settings or OutlookSettings()
    width = settings.width(experts)
    square = np.full(width, strength)
    square[-1] = 0.1 * strength
    product: FloatArray = np.zeros((layers, width, experts))
    own = np.arange(experts)
    product[:, _BELIEVED * experts + own, own] = strength
    sums = OutlookSums(layers, experts, settings)
    sums.believe(np.broadcast_to(np.diag(square), (layers, width, width)), product)
    return sums
