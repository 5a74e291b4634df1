"""Raw scores of the linear heads, compiled: choices are looked up, not multiplied."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@numba.njit(cache=True)
def head_scores(
    source: int,
    ids: Array,
    weights: Array,
    older_ids: Array,
    older_weights: Array,
    averages: Array,
    newer_averages: Array,
    window: Array,
    previous: Array,
    average: Array,
    bias: Array,
) -> Array:
    """Scores of all experts at all horizons, float32 ``[tokens, horizons, experts]``.

    Parameters
    ----------
    source
        Layer of the last gate.
    ids, weights
        Choice of each row in the layers up to the source, ``[tokens, layers, top_k]``; ids below 0 are no
        choice. Later layers are not read.
    older_ids, older_weights
        Choice of the row before it in its sequence.
    averages, newer_averages
        Moving averages before the row and with it, ``[decays, tokens, layers, experts]``; of the latter only
        layers up to the source are read.
    window
        Coefficients of choices, and of their weights where those are used, ``[gates back, channels, experts,
        horizons * experts]``.
    previous
        The same for the target layer's last choice, ``[horizons, channels, experts, experts]``; empty for
        none.
    average
        Coefficients of the averages, ``[horizons, decays, experts, experts]``.
    bias
        Constant part, ``[horizons, experts]``.
    """
    tokens, layers, top_k = ids.shape
    horizons, experts = bias.shape
    flat = np.empty((tokens, horizons * experts), dtype=np.float32)
    for row in range(tokens):
        out = flat[row]
        for index in range(horizons * experts):
            out[index] = bias[index // experts, index % experts]
        for back in range(window.shape[0]):
            layer = (source - back) % layers
            now = layer <= source
            for k in range(top_k):
                expert = ids[row, layer, k] if now else older_ids[row, layer, k]
                if expert < 0:
                    continue
                scale = weights[row, layer, k] if now else older_weights[row, layer, k]
                chosen, weighted = window[back, 0, expert], window[back, -1, expert]
                if window.shape[1] == 1:
                    for index in range(horizons * experts):
                        out[index] += chosen[index]
                else:
                    for index in range(horizons * experts):
                        out[index] += chosen[index] + scale * weighted[index]
        for horizon in range(horizons):
            target = (source + 1 + horizon) % layers
            now = target <= source
            part = out[horizon * experts : (horizon + 1) * experts]
            if previous.shape[0]:
                for k in range(top_k):
                    expert = ids[row, target, k] if now else older_ids[row, target, k]
                    if expert < 0:
                        continue
                    scale = weights[row, target, k] if now else older_weights[row, target, k]
                    if previous.shape[1] == 1:
                        # Without coefficients of weights the last channel is the first: count it once.
                        scale = np.float32(0.0)
                    chosen, weighted = previous[horizon, 0, expert], previous[horizon, -1, expert]
                    for index in range(experts):
                        part[index] += chosen[index] + scale * weighted[index]
            for decay in range(average.shape[1]):
                shares = newer_averages[decay, row, target] if now else averages[decay, row, target]
                for expert in range(experts):
                    share = shares[expert]
                    coefficients = average[horizon, decay, expert]
                    for index in range(experts):
                        part[index] += share * coefficients[index]
    return flat.reshape(tokens, horizons, experts)
