"""A trained LLaPor at work."""

from __future__ import annotations

from math import isfinite
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.predictor.calibration import batch_probability
from prescope.predictor.llapor.calibrate import expected_and_load
from prescope.predictor.llapor.features import past_columns, selection_columns, source_rows
from prescope.predictor.llapor.memory import HistoryMemory
from prescope.predictor.llapor.model import LlaporModel
from prescope.predictor.llapor.network import SourceNetwork
from prescope.predictor.shares import check_target, forecast_from_shares

if TYPE_CHECKING:
    from prescope.predictor.llapor.tuning import Tuner


# Logit where a gate showed no number.
_NOTHING_KNOWN = -2.0


class Step:
    """What the gates of one step have shown."""

    def __init__(self, tokens: int, sequences: IntArray, past: Tensor, token_part: Tensor) -> None:
        self.tokens, self.sequences, self.past = tokens, sequences, past
        # Per source: main input, and what was chosen; before the first gate, whether the token is known.
        self.seen: dict[int, tuple[Tensor, Tensor, Tensor | None]] = {
            0: (token_part[:, :-1], token_part[:, -1:], None)
        }
        # What was asked for so far: features, logits, and sums over the rows.
        self.rows: dict[int, Tensor] = {}
        self.logits: dict[int, Tensor] = {}
        self.summed: dict[int, tuple[FloatArray, FloatArray]] = {}
        self.ids: list[Tensor] = []
        self.now: Tensor | None = None
        self.finite = True


class Llapor:
    """Forecasts by one small network per gate, all horizons from one pass.

    What a gate showed is kept until the next step begins, so that a forecast may be asked for later than
    its gate and from another thread.

    Parameters
    ----------
    model
        As trained or loaded.
    tuner
        Adapts the networks while running; ``None`` leaves them as they are.
    capacity
        Sequences whose history is remembered at most.
    """

    name = "llapor"

    def __init__(self, model: LlaporModel, *, tuner: Tuner | None = None, capacity: int = 1024) -> None:
        self._model, self._tuner = model, tuner
        self._networks = list(model.networks)
        self._memory = HistoryMemory(
            history=model.basis.history,
            trend=model.basis.trend,
            decay=model.settings.decay,
            capacity=capacity,
        )
        basis = model.basis
        self._joint = torch.cat([basis.project, basis.recall], dim=2)
        self._shift = -(basis.mean[:, None, :] @ self._joint)[:, 0]
        self._correction = model.correction.transpose(0, 2, 1)[..., None]
        self._next_sequence = -1
        self._lock = Lock()
        self._step = self._new_step(0, None, None)

    @property
    def model(self) -> LlaporModel:
        """As it was loaded."""
        return self._model

    @property
    def networks(self) -> tuple[SourceNetwork, ...]:
        """The networks in use, tuned or not."""
        return tuple(self._networks)

    def cost_ns(self, layer: int, tokens: int) -> int:
        """Measured time of the forecasts after a gate, for so many rows; 0 where nothing was measured.

        Between and beyond the two sizes measured it is taken to be linear.
        """
        if not self._model.cost_ns or not 0 <= layer + 1 < len(self._model.cost_ns):
            return 0
        one, many = self._model.cost_ns[layer + 1]
        return max(0, round(one + (many - one) * (max(tokens, 1) - 1) / 31))

    def known_counts(self) -> IntArray | None:
        """Nothing is known beforehand; see `Predictor.known_counts`."""
        return None

    def begin_step(
        self, tokens: int, *, sequences: IntArray | None = None, token_ids: IntArray | None = None
    ) -> None:
        """Announce a step; see `Predictor.begin_step`."""
        self._step = self._new_step(tokens, sequences, token_ids)

    def observe(self, layer: int, hidden: Tensor | None, indices: Tensor, weights: Tensor | None) -> None:
        """Keep what a gate shows; see `Predictor.observe`.

        Raises
        ------
        ValueError
            Without gating inputs, or when they are of another size. Where they are not finite, nothing is
            remembered or learnt from the step, and forecasts stay valid.
        """
        step, facts, basis = self._step, self._model.facts, self._model.basis
        if hidden is None:
            raise ValueError(
                "expected gating inputs for the predictor 'llapor', got none: use 'routing-only', which "
                "needs none"
            )
        if hidden.shape != (step.tokens, facts.hidden_size):
            raise ValueError(
                f"expected gating inputs of shape {(step.tokens, facts.hidden_size)}, "
                f"got {tuple(hidden.shape)}"
            )
        with torch.inference_mode():
            rows = hidden.detach().cpu().float()
            ids = indices.detach().cpu()
            step.ids.append(ids)
            # Components and history in one product.
            both = torch.addmm(self._shift[layer], rows, self._joint[layer])
            step.finite &= isfinite(float(rows.sum()))
            part = both[:, basis.components :]
            step.now = part if step.now is None else step.now + part
            if layer + 1 < facts.layers:
                scales = None if weights is None else weights.detach().cpu()
                step.seen[layer + 1] = both[:, : basis.components], ids, scales
                return
            if not step.finite:
                return
            self._memory.remember(step.sequences, step.now)
        if self._tuner is not None and len(step.ids) == facts.layers:
            self._tuner.end_step(self, step)

    def predict(self, layer: int, horizon: int) -> Forecast:
        """Expected tokens and calibrated batch probability; see `Predictor.predict`."""
        target = check_target(layer, horizon, self._model.facts.layers)
        column = horizon - 1
        expected_tokens, probability = self.forecast_arrays(layer)
        if column >= len(expected_tokens):
            return forecast_from_shares(self._model.prior[target].astype(np.float64), self._step.tokens)
        return Forecast(expected_tokens=expected_tokens[column], probability=probability[column])

    def forecast_arrays(self, layer: int) -> tuple[FloatArray, FloatArray]:
        """Expected tokens and batch probabilities of all horizons, float32 ``[horizons, experts]`` each."""
        step, source = self._step, layer + 1
        if source not in step.summed:
            step.summed[source] = self._sums(self._logits(step, source), source)
        return step.summed[source]

    def predict_tokens(self, layer: int, horizon: int) -> FloatArray:
        """Calibrated probability of every row and expert, float64 ``[tokens, experts]``."""
        target = check_target(layer, horizon, self._model.facts.layers)
        step, source, column = self._step, layer + 1, horizon - 1
        logits = self._logits(step, source)
        if column >= logits.shape[1]:
            return np.broadcast_to(
                self._model.prior[target].astype(np.float64), (step.tokens, self._model.facts.experts)
            )
        found: FloatArray = torch.sigmoid(logits[:, column]).double().numpy()
        return found

    def replace_network(self, source: int, network: SourceNetwork) -> None:
        """Use another network for a source from the next forecast on; safe from any thread."""
        self._networks[source] = network

    def _new_step(self, tokens: int, sequences: IntArray | None, token_ids: IntArray | None) -> Step:
        if sequences is None:
            # Rows that nobody names have no past; their names are below all that a caller gives.
            sequences = np.arange(self._next_sequence, self._next_sequence - tokens, -1, dtype=np.int64)
            self._next_sequence -= tokens
        if len(sequences) != tokens:
            raise ValueError(f"expected {tokens} sequence ids, got {len(sequences)}")
        named = None if token_ids is None else torch.from_numpy(np.asarray(token_ids, dtype=np.int64))
        with torch.inference_mode():
            part = self._model.basis.token_components(named, tokens)
            found = self._memory.recall(sequences)
            past = past_columns(found.last, found.trend, found.known, gain=self._model.basis.trend_scale)
            return Step(tokens, sequences, past, part)

    def _sums(self, logits: Tensor, source: int) -> tuple[FloatArray, FloatArray]:
        """Expected tokens and batch probabilities of all horizons, ``[horizons, experts]`` each."""
        with torch.inference_mode():
            expected, load = (part.numpy() for part in expected_and_load(logits))
        needed = batch_probability(load, len(logits), self._correction[source][:, : len(load)])
        # An expert cannot be likelier to be needed than it has expected tokens.
        return expected, np.minimum(needed, expected)

    def _logits(self, step: Step, source: int) -> Tensor:
        if source not in step.seen:
            raise ValueError(f"expected the gate of layer {source - 1} first, got none of it in this step")
        with self._lock, torch.inference_mode():
            if source not in step.logits:
                main, rest, scales = step.seen[source]
                if source:
                    rest = selection_columns(rest, scales, self._model.facts.experts, complete=True)
                rows = source_rows(main, rest, step.past)
                logits = self._networks[source](rows)
                if not step.finite:
                    logits = torch.nan_to_num(logits, nan=_NOTHING_KNOWN, posinf=30.0, neginf=-30.0)
                    rows = torch.nan_to_num(rows)
                if self._tuner is not None:
                    step.rows[source] = rows
                step.logits[source] = logits
            return step.logits[source]
