"""Steps over a pool of rows, simulated by the compiled control, for ``disk_expected.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prescope.formulation import CostModel, LinearTime, Link
from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.pooled_compiled import CompiledPooledStep
from prescope.runtime.control.read_rules import ReadRules
from prescope.runtime.control.residency import Residency
from prescope.runtime.control.tables import CostTables
from prescope.solver.online import GatePolicy
from prescope.solver.residency import Learned


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A policy, how it reads ahead, and how far; ``rules`` of ``None`` are those it has as shipped."""

    policy: GatePolicy
    lookahead: int
    rules: ReadRules | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decode:
    """Decode steps with what is forecast of them.

    Parameters
    ----------
    counts
        Tokens, int64 ``[steps, layers, experts]``.
    probabilities, expected_tokens
        Forecast of each layer by the gate ``h + 1`` layers before it, float64 ``[horizons, steps, layers,
        experts]``.
    tokens
        Tokens of a step.
    """

    counts: IntArray
    probabilities: FloatArray
    expected_tokens: FloatArray
    tokens: int

    def first(self, steps: int) -> Decode:
        """The first steps alone."""
        return Decode(
            counts=self.counts[:steps],
            probabilities=self.probabilities[:, :steps],
            expected_tokens=self.expected_tokens[:, :steps],
            tokens=self.tokens,
        )

    def known(self) -> Decode:
        """The same steps with forecasts that are the truth."""
        said = np.broadcast_to(self.counts, self.probabilities.shape)
        return Decode(
            counts=self.counts,
            probabilities=(said > 0).astype(np.float64),
            expected_tokens=said.astype(np.float64),
            tokens=self.tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Times:
    """What came of it: length, reads, and reads ahead of each step; int64 ``[steps]``."""

    step_ns: IntArray
    reads: IntArray
    ahead: IntArray


def simulate(decode: Decode, costs: CostModel, residency: Residency, rows: int, way: Way) -> Times:
    """Run all steps over one pool that is empty at first; times are those of the control's clock."""
    pool = RowPool(rows, residency)
    tables = CostTables(costs)
    horizons, steps, layers, experts = decode.probabilities.shape
    step_ns, reads, ahead = (np.zeros(steps, dtype=np.int64) for _ in range(3))
    for number in range(steps):
        step = CompiledPooledStep(
            costs=costs,
            tables=tables,
            pool=pool,
            lookahead=way.lookahead,
            policy=way.policy,
            forecast=_forecaster(decode, number),
            tokens=decode.tokens,
            experts=experts,
            reach=horizons,
            rules=way.rules,
        )
        step.start()
        for layer in range(layers):
            step.gate(layer, decode.counts[number, layer])
        _, plan = step.finish()
        step_ns[number] = plan.info.makespan_ns
        reads[number] = len(plan.transfers)
        ahead[number] = sum(copy.layer > copy.gate for copy in plan.transfers)
    return Times(step_ns=step_ns, reads=reads, ahead=ahead)


def _forecaster(decode: Decode, step: int) -> Callable[[int, int], Forecast]:
    def forecast(layer: int, horizon: int) -> Forecast:
        place = (horizon - 1, step, layer + horizon)
        return Forecast(
            expected_tokens=decode.expected_tokens[place], probability=decode.probabilities[place]
        )

    return forecast


class NextUse:
    """Belady's rule, which knows all uses: the expert that is idle longest goes first."""

    name = "belady"

    def __init__(self, counts: IntArray) -> None:
        steps, layers, experts = counts.shape
        self._next = np.full((steps + 2, layers, experts), 10 * steps, dtype=np.float64)
        for step in reversed(range(steps)):
            self._next[step] = np.where(counts[step] > 0, step, self._next[step + 1])
        self._step = 0
        self._layer = -1

    def observe(self, layer: int, counts: IntArray) -> None:
        """Time goes on; see `Residency.observe`."""
        self._step += layer < self._layer
        self._layer = layer

    def scores(self, layer: int) -> FloatArray:
        """Distance of the next use, negated; see `Residency.scores`."""
        layers = self._next.shape[1]
        # Before the first gate of a step the last one is not counted on yet.
        step = self._step + (layer < self._layer)
        due = self._next[step].copy()
        due[: layer + 1] = self._next[step + 1][: layer + 1]
        distance: FloatArray = (due - step) * layers + np.arange(layers)[:, None] - layer
        return -distance

    def quota(self, rows: int) -> int | None:
        """One pool; see `Residency.quota`."""
        return None


class LearnedDistance:
    """The rule ``moving-average`` with the probabilities of the learned outlook instead of averages."""

    name = "learned"

    def __init__(self, learned: Learned, tokens: int, shape: tuple[int, int]) -> None:
        self._learned, self._tokens = learned, tokens
        self._counts = np.zeros(shape, dtype=np.int64)
        self._use = self._of()

    def _of(self) -> FloatArray:
        use: FloatArray = np.clip(1.0 - (1.0 - self._learned.expected_use()) ** self._tokens, 1e-3, 1.0)
        return use

    def observe(self, layer: int, counts: IntArray) -> None:
        """The outlook changes with the last gate of a step; see `Residency.observe`."""
        self._counts[layer] = counts
        if layer + 1 == self._counts.shape[0]:
            self._learned.observe(self._counts)
            self._use = self._of()

    def scores(self, layer: int) -> FloatArray:
        """Expected distance of the next use, negated; see `Residency.scores`."""
        layers = self._use.shape[0]
        ahead = (np.arange(layers) - layer - 1) % layers + 1
        distance: FloatArray = ahead[:, None] + layers * (1.0 - self._use) / self._use
        return -distance

    def quota(self, rows: int) -> int | None:
        """One pool; see `Residency.quota`."""
        return None


def quiet_machine_costs(layers: int) -> CostModel:
    """Costs of a machine with 2 cores and a virtual disk: reads, one-token experts and dense parts measured.

    The first three are those of ``results/disk_tier.md``; what each further token adds is assumed.
    """
    return CostModel(
        expert_bytes=(9_437_184,) * layers,
        link=Link(bytes_per_s=1_865_000_000),
        gpu=(LinearTime(fixed_ns=1_050_000, per_token_ns=50_000),),
        cpu=(LinearTime(fixed_ns=0),),
        dense=(LinearTime(fixed_ns=4_630_000, per_token_ns=290_000),),
        source="measured for one token, see results/disk_tier.md",
    )


def spoiled(decode: Decode, kind: str, seed: int) -> Decode:
    """The same steps with a worse predictor; the kinds are those of ``guard.py``."""
    chance, tokens = decode.probabilities, decode.expected_tokens
    if kind == "good":
        return decode
    if kind == "wrong":
        sure = np.random.default_rng(seed).random(chance.shape) < 0.3
        chance = np.where(decode.counts > 0, 0.001, np.where(sure, 0.95, 0.01))
        tokens = chance
    elif kind == "late":
        flat = decode.counts.reshape(-1, decode.counts.shape[-1])
        before = np.roll(flat, 5, axis=0).reshape(decode.counts.shape)
        chance = np.broadcast_to((before > 0) * 0.95, chance.shape).copy()
        tokens = chance * np.maximum(before, 1)
    elif kind == "shifted":
        chance, tokens = np.roll(chance, 5, axis=-1), np.roll(tokens, 5, axis=-1)
    elif kind in ("over-confident", "under-confident"):
        each = np.maximum(tokens / np.maximum(chance, 1e-12), 1.0)
        chance = chance ** (1 / 3 if kind == "over-confident" else 3.0)
        tokens = chance * each
    elif kind == "uniform":
        flat_chance = np.ones(chance.shape)
        chance, tokens = (flat_chance * one.mean(-1, keepdims=True) for one in (chance, tokens))
    else:
        raise ValueError(f"expected a known kind of predictor, got {kind!r}")
    return Decode(counts=decode.counts, probabilities=chance, expected_tokens=tokens, tokens=decode.tokens)
