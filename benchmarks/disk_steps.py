"""Runs a model on given tokens, one token of every stream per step, and times the steps."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import torch

from benchmarks.disk_routing import Array


def run_steps(
    model: Any,
    groups: Sequence[Array],
    *,
    warm: int,
    on_warm: Callable[[], None] = lambda: None,
    limit_s: float | None = None,
) -> tuple[list[int], int]:
    """Decode given tokens (teacher forcing); the cache of keys starts anew with each group.

    Parameters
    ----------
    model
        A transformers model.
    groups
        Token ids ``[batch, tokens]`` each, one after the other.
    warm
        Steps that fill the memory first and are not timed.
    on_warm
        Called after them.
    limit_s
        No further step is begun after so many seconds of timed ones.

    Returns
    -------
    list of int, int
        Nanoseconds of each timed step, and a checksum of all timed logits.
    """
    times: list[int] = []
    digest = 0
    step = 0
    for group in groups:
        ids, cache = torch.from_numpy(group), None
        for token in range(ids.shape[1]):
            if limit_s is not None and sum(times) > limit_s * 1e9:
                return times, digest
            if step == warm:
                on_warm()
            began = perf_counter_ns()
            with torch.no_grad():
                output = model(input_ids=ids[:, token : token + 1], past_key_values=cache, use_cache=True)
            ended = perf_counter_ns()
            cache = output.past_key_values
            if step >= warm:
                times.append(ended - began)
                digest = zlib.crc32(output.logits.float().numpy().tobytes(), digest)
            step += 1
    return times, digest
