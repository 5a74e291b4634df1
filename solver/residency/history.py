"""Fit the outlook model to a short history, held back as far as held-out sequences say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.residency.outlook_model import OutlookSums, fit_outlook

PENALTIES = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
"""Ridge penalties that are tried; the largest leave little but the mean."""

_EVERY = 4


def fit_to_history(history: Sequence[IntArray], start: FloatArray) -> OutlookSums:
    """`fit_outlook` with the ridge penalty that predicts held-out sequences best.

    Every fourth sequence is held out while the penalty is chosen; with fewer than four it is the default. The
    sums are those of all sequences.

    Parameters
    ----------
    history
        Sequences of steps, int64 ``[steps, layers, experts]`` each.
    start
        As of `fit_outlook`.
    """
    sums = fit_outlook(history, start)
    if len(history) < _EVERY:
        return sums
    kept = fit_outlook((one for number, one in enumerate(history) if number % _EVERY), start)
    held_out = fit_outlook(history[::_EVERY], start)
    if not kept.weight or not held_out.weight:
        return sums

    def misfit(penalty: float) -> float:
        kept.settings = replace(kept.settings, penalty=penalty)
        return held_out.misfit(kept.solve())

    sums.settings = replace(sums.settings, penalty=min(PENALTIES, key=misfit))
    return sums
