"""What `prescope.attach` was asked for as retention, made definite."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from prescope.formulation import CostModel
from prescope.formulation.demand import FloatArray
from prescope.instances import read_trace
from prescope.runtime.control.retention import Retention
from prescope.runtime.plugin.moe_layers import AttachError
from prescope.solver.residency import (
    GateAverage,
    GateLearned,
    GateRule,
    LeastFrequentlyUsed,
    LeastRecentlyUsed,
    OutlookSums,
    StepwiseRule,
    outlook_of_trace,
)
from prescope.solver.residency.retentions import STATIC, parse_retention

DEFAULT_RETENTION = "moving-average"

NEEDED_FROM = 2
"""Tokens in a step from which a fitted model may have residents give way that the step needs. On validation
sequences that gains at batch 4 and 8 and loses at 1; other rules gain nothing by it."""


class _Setting(NamedTuple):
    start: FloatArray
    fixed_ns: float
    per_token_ns: float
    background: bool
    sums: OutlookSums | None


def resolve_retention(
    wanted: str | GateRule | None,
    *,
    shares: FloatArray,
    top_k: int,
    costs: CostModel,
    host_computes: bool,
    residents: tuple[tuple[int, ...], ...],
    slots: int,
    background: bool,
    fingerprint: str = "",
) -> Retention | None:
    """The residents of one step after another; ``None`` where nobody moves.

    Parameters
    ----------
    wanted
        As `prescope.solver.residency.retentions.parse_retention` reads it, a rule, or ``None`` for the
        default.
    shares
        Share of each expert, ``[layers, experts]``.
    top_k
        Experts of a token.
    costs, host_computes
        What an expert that is not resident costs.
    residents, slots
        As of `EngineSettings`.
    background
        Whether a rule that learns may do it in a thread; otherwise results do not depend on timing.
    fingerprint
        Of the model's gates; a trace of other gates is refused.

    Raises
    ------
    AttachError
        When it is no rule, or the trace is none of this model.
    """
    rule = DEFAULT_RETENTION if wanted is None else wanted
    if isinstance(rule, str):
        try:
            name, trace = parse_retention(rule)
        except ValueError as error:
            raise AttachError(str(error)) from error
        sums = _outlook(trace, shares.shape, fingerprint) if trace else None
        # Without slots nothing ever comes in.
        if name == STATIC or not slots or not any(residents):
            return None
        rule = _RULES[name](_setting(shares, top_k, costs, host_computes, background, sums))
    _check_rule(rule)
    fitted = isinstance(rule, GateLearned) and rule.fitted
    return Retention(rule, residents, experts=shares.shape[1], needed_from=NEEDED_FROM if fitted else None)


def _check_rule(rule: GateRule) -> None:
    wanted = ("name", "observe", "scores", "end_step", "close")
    if missing := [name for name in wanted if not hasattr(rule, name)]:
        raise AttachError(
            f"expected a retention rule, got {type(rule).__name__} without {', '.join(missing)}"
        )


def _outlook(path: str, shape: tuple[int, ...], fingerprint: str) -> OutlookSums:
    try:
        trace = read_trace(path)
        found = (trace.layers, trace.meta.experts)
        if found != shape:
            raise ValueError(
                f"expected {shape[0]} layers of {shape[1]} experts, got {found[0]} of {found[1]}"
            )
        if fingerprint and trace.meta.fingerprint not in ("", fingerprint):
            raise ValueError(f"expected routing of gates {fingerprint}, got {trace.meta.fingerprint}")
        return outlook_of_trace(trace)
    except ValueError as error:
        raise AttachError(
            f"expected routing of this model to learn retention from in {path}: {error}"
        ) from error


def _setting(
    shares: FloatArray,
    top_k: int,
    costs: CostModel,
    host_computes: bool,
    background: bool,
    sums: OutlookSums | None,
) -> _Setting:
    start = chosen_by_a_token(shares, top_k)
    if not host_computes:
        return _Setting(start, float(costs.copy_ns(0)), 0.0, background, sums)
    one_ns, two_ns = costs.cpu_ns(0, 1), costs.cpu_ns(0, 2)
    fixed_ns, per_token_ns = float(2 * one_ns - two_ns), float(two_ns - one_ns)
    return _Setting(start, fixed_ns, per_token_ns, background, sums)


def chosen_by_a_token(shares: FloatArray, top_k: int) -> FloatArray:
    """Probability that a token chooses each expert, ``[layers, experts]``: in proportion, each at most 1.

    Every row adds up to ``top_k``. What is left over goes to the others; where all of those have a share of
    zero, in equal parts.

    Parameters
    ----------
    shares
        Share of each expert, or anything in proportion to it, ``[layers, experts]``.
    top_k
        Experts of a token.
    """
    start = np.zeros(shares.shape)
    for _ in range(shares.shape[1]):
        missing = top_k - start.sum(axis=1, keepdims=True)
        if missing.max() < 1e-9:
            break
        open_ones = np.where(start < 1.0, shares, 0.0)
        total = open_ones.sum(axis=1, keepdims=True)
        open_ones = np.where(total > 1e-300, open_ones, start < 1.0)
        scale = missing / open_ones.sum(axis=1, keepdims=True).clip(1e-300)
        start = np.minimum(1.0, start + open_ones * scale)
    return start


_RULES: dict[str, Callable[[_Setting], GateRule]] = {
    "learned": lambda known: GateLearned(
        known.start,
        known.sums,
        fixed_ns=known.fixed_ns,
        per_token_ns=known.per_token_ns,
        background=known.background,
    ),
    "moving-average": lambda known: GateAverage(
        known.start, fixed_ns=known.fixed_ns, per_token_ns=known.per_token_ns
    ),
    "lru": lambda known: StepwiseRule(
        LeastRecentlyUsed(*known.start.shape), layers=known.start.shape[0], experts=known.start.shape[1]
    ),
    "lfu": lambda known: StepwiseRule(
        LeastFrequentlyUsed(*known.start.shape), layers=known.start.shape[0], experts=known.start.shape[1]
    ),
}
