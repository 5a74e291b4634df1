"""Residents by what a learned model expects of the next steps, gate by gate, fitted while running."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from logging import getLogger

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.residency.learned import STATIC_FROM_TOKENS
from prescope.solver.residency.outlook_model import DECAYS, NEIGHBOUR, OutlookSums, distances_to
from prescope.solver.residency.outlook_prior import average_prior
from prescope.solver.residency.refit import Refit

_LOG = getLogger(__name__)

# Steps that may wait to be counted; with more, the newest is left out.
_MOST_WAITING = 8


class GateLearned:
    """The expert with the least expected host time goes first, as `Learned` says it, layer by layer.

    Parameters
    ----------
    start
        As of `GateAverage`.
    sums
        What the model was fitted from, for example `fit_outlook`; ``None`` begins as a moving average.
    fixed_ns, per_token_ns
        As of `GateAverage`.
    static_from
        Tokens in a step from which nobody moves; ``None`` is 16 without ``sums`` and never with them.
    every
        Steps between two fits.
    background
        Whether a thread counts and fits. Otherwise `end_step` does, and results do not depend on timing.
    """

    name = "learned"

    def __init__(
        self,
        start: FloatArray,
        sums: OutlookSums | None = None,
        *,
        fixed_ns: float,
        per_token_ns: float,
        static_from: int | None = None,
        every: int = 16,
        background: bool = True,
    ) -> None:
        self._start = np.array(start, dtype=np.float64)
        self._chosen = self._start.sum(axis=1)
        layers, experts = self._start.shape
        known = average_prior(layers, experts) if sums is None else sums
        self._fitted = sums is not None
        self._static_from = STATIC_FROM_TOKENS if sums is None and static_from is None else static_from
        self._fixed_ns, self._per_token_ns = fixed_ns, per_token_ns
        # [layers, decays, experts]: one layer's inputs lie together.
        self._inputs = np.repeat(self._start[:, None], len(DECAYS), axis=1)
        self._beside = np.array(distances_to(known.settings.neighbours), dtype=np.int64)
        # What is known of each layer at its gate, and what was at the one before.
        self._known = np.stack([self._row(layer) for layer in range(layers)])
        self._rows = self._known.copy()
        self._use = self._start.copy()
        self._seen, self._single = 0, True
        self._model = known.solve()
        # It is told and asked by one thread, ours or its own.
        self._refit = Refit(known, every=every, background=False)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="prescope-refit") if background else None
        self._waiting: list[Future[None]] = []

    @property
    def fitted(self) -> bool:
        """Whether it began with a model."""
        return self._fitted

    @property
    def fits(self) -> int:
        """How often the model was fitted while it was used."""
        return self._refit.fits

    def observe(self, layer: int, counts: IntArray, steps: float = 1.0) -> None:
        """See `GateRule.observe`; a step that counts as several moves the inputs and teaches nothing."""
        total = int(counts.sum())
        if not total:
            return
        self._use[layer] = counts * (self._chosen[layer] / total)
        for decay, average in zip(DECAYS, self._inputs[layer], strict=True):
            average += (1.0 - (1.0 - decay) ** steps) * (self._use[layer] - average)
        self._known[layer] = self._row(layer)
        self._seen += 1
        self._single &= steps == 1.0

    def scores(self, layer: int, tokens: int) -> FloatArray | None:
        """See `GateRule.scores`."""
        if self._static_from is not None and tokens >= self._static_from:
            return None
        use = np.clip(self._known[layer] @ self._model[layer], 0.0, 1.0)
        needed = 1.0 - (1.0 - use) ** tokens
        worth: FloatArray = self._fixed_ns * needed + self._per_token_ns * tokens * use
        return worth

    def end_step(self) -> None:
        """See `GateRule.end_step`; a step that was given up teaches nothing, nor does a prompt."""
        if self._seen == self._start.shape[0]:
            if self._single:
                self._count(self._rows, self._use.copy())
            elif self._pool is None:
                self._refit.forget_waiting()
            else:
                # Steps that are still to be counted come first.
                self._pool.submit(self._refit.forget_waiting)
        self._seen, self._single = 0, True
        self._rows = self._known.copy()
        self._model = self._refit.latest(self._model)

    def close(self) -> None:
        """See `GateRule.close`; what is being counted is waited for."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _row(self, layer: int) -> FloatArray:
        """Inputs of a layer's model at its gate; layers behind it have not spoken yet in this step."""
        beside = self._inputs[(layer + self._beside) % self._start.shape[0], NEIGHBOUR]
        return np.concatenate([self._inputs[layer].ravel(), beside.ravel(), (1.0,)])

    def _count(self, rows: FloatArray, use: FloatArray) -> None:
        if self._pool is None:
            self._refit.observe(rows, use)
            return
        for done in [future for future in self._waiting if future.done()]:
            self._waiting.remove(done)
            if (failure := done.exception()) is not None:
                _LOG.warning("residents are kept by the model fitted before: %s", failure)
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(self._pool.submit(self._refit.observe, rows, use))
