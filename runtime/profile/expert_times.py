"""Time of one expert against its tokens: the real arithmetic on real weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from prescope.instances import MeasuredSeries
from prescope.instances.cost_series import SeriesKind
from prescope.runtime.plugin.expert_math import ExpertInput, run_expert
from prescope.runtime.profile.settings import ProfileSettings
from prescope.runtime.profile.threads import intra_op_threads
from prescope.runtime.profile.timing import Clock, Probe, measure, now_ns, timed


def time_experts(
    module: Any,
    experts: Sequence[Mapping[str, Tensor]],
    settings: ProfileSettings,
    *,
    threads: int,
    reading: int = 0,
    clock: Clock = now_ns,
) -> MeasuredSeries:
    """Time one expert with every number of tokens.

    Parameters
    ----------
    module
        The model's experts module, for its gating.
    experts
        Weights of experts; another one each time, so that none is found in a cache.
    settings
        Tokens, repeats and seed.
    threads
        Threads of the arithmetic.
    reading
        Reads in flight that the caller sees to meanwhile; only for the label.
    clock
        The time.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    turns = cycle(experts)

    def probe(tokens: int) -> Probe:
        work = _random_input(experts[0], tokens, generator)
        return Probe(x=tokens, run=timed(lambda: run_expert(module, next(turns), work), clock))

    probes = [probe(tokens) for tokens in settings.expert_tokens]
    with torch.no_grad(), intra_op_threads(threads):
        (points,) = measure(probes, effort=settings.effort, clock=clock)
    label = f"{threads} thread{'s' if threads > 1 else ''}"
    if reading:
        label = f"{label}, {reading} in flight"
    kind: SeriesKind = "expert-while-reading" if reading else "expert"
    return MeasuredSeries(kind=kind, label=label, workers=threads, points=points)


def _random_input(weights: Mapping[str, Tensor], tokens: int, generator: torch.Generator) -> ExpertInput:
    weight = weights["gate_up_proj"]
    hidden = torch.randn(tokens, weight.shape[1], generator=generator).to(weight.dtype)
    return ExpertInput(
        rows=torch.arange(tokens), hidden=hidden, scale=torch.ones(tokens, 1, dtype=weight.dtype)
    )
