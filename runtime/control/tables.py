"""Costs of a running step as arrays: true ones at a gate, expected ones ahead of it."""

from __future__ import annotations

import numpy as np

from prescope.formulation import CostModel
from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.formulation.time_curves import TimeCurve

_KEPT = 64


class CostTables:
    """Time curves of a cost model, tabulated on demand up to the largest token count seen.

    Parameters
    ----------
    costs
        The cost model.
    """

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs
        self._known: dict[TimeCurve, IntArray] = {}
        self._dense: dict[int, IntArray] = {}
        self._copy_ns = np.array([costs.copy_ns(layer) for layer in range(costs.layers)], dtype=np.int64)
        self._rows: tuple[IntArray, IntArray] | None = None

    def gpu_ns(self, layer: int, counts: IntArray) -> IntArray:
        """Time on the device of experts with ``counts`` tokens; zero without tokens."""
        return self._upto(self._costs.gpu[layer % len(self._costs.gpu)], counts.max(initial=0))[counts]

    def cpu_ns(self, layer: int, counts: IntArray) -> IntArray:
        """Time on the host of experts with ``counts`` tokens; zero without tokens."""
        return self._upto(self._costs.cpu[layer % len(self._costs.cpu)], counts.max(initial=0))[counts]

    def expected_ns(
        self, layer: int, forecast: Forecast, *, batch_tokens: int
    ) -> tuple[FloatArray, FloatArray]:
        """Expected time of each expert on the device and on the host.

        An expert is needed with its probability and then has its conditional mean of tokens, at most all
        ``batch_tokens``; the curves are read there, linear between integers.
        """
        probability = forecast.probability
        needed = probability > 0
        tokens = np.divide(
            forecast.expected_tokens, probability, out=np.zeros_like(probability), where=needed
        ).clip(1.0, max(1, batch_tokens))
        whole = tokens.astype(np.int64)
        rest = tokens - whole
        gpu, cpu = (
            probability * (table[whole] * (1.0 - rest) + table[whole + 1] * rest)
            for table in (
                self._upto(curves[layer % len(curves)], int(whole.max()) + 1)
                for curves in (self._costs.gpu, self._costs.cpu)
            )
        )
        return gpu, cpu

    def layers(self, tokens: int) -> tuple[IntArray, IntArray]:
        """Time before the gate with ``tokens`` tokens, and of a copy, per layer."""
        dense_ns = self._dense.get(tokens)
        if dense_ns is None:
            layers = range(self._costs.layers)
            dense_ns = np.array([self._costs.dense_ns(layer, tokens) for layer in layers], dtype=np.int64)
            # Prompts come in all lengths; a few of them are kept.
            if len(self._dense) >= _KEPT:
                self._dense.clear()
            self._dense[tokens] = dense_ns
        return dense_ns, self._copy_ns

    def arrays(self, tokens: int) -> tuple[IntArray, IntArray]:
        """Device and host curves as rows, one per layer or one for all, for at least ``tokens`` tokens."""
        if self._rows is None or self._rows[0].shape[1] <= tokens:
            size = max(64, 2 * (tokens + 1))
            gpu, cpu = (
                np.array([self._upto(curve, size - 1)[:size] for curve in curves])
                for curves in (self._costs.gpu, self._costs.cpu)
            )
            self._rows = gpu, cpu
        return self._rows

    def _upto(self, curve: TimeCurve, tokens: int) -> IntArray:
        table = self._known.get(curve)
        if table is None or table.shape[0] <= tokens:
            # Doubling keeps the number of rebuilds small when a prompt is longer than all before.
            size = max(64, 2 * (tokens + 1))
            table = np.array([curve(count) for count in range(size)], dtype=np.int64)
            self._known[curve] = table
        return table
