"""Every kind of file and every way to damage it, by name; runs mutants and counts what became of them."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import checkpoint_trials
import json_trials
import log_trials
import trace_trials

Attempt = Callable[[int], str]

TRIALS: dict[str, Callable[[Path], Attempt]] = {
    **{f"{kind}: bytes": partial(json_trials.byte_trial, kind) for kind in json_trials.KINDS},
    **{
        f"{kind}: bytes inside gzip": partial(json_trials.byte_trial, kind, inside_gzip=True)
        for kind in json_trials.KINDS
        if kind != "index"
    },
    **{f"{kind}: structure": partial(json_trials.structure_trial, kind) for kind in json_trials.KINDS},
    "trace: bytes": trace_trials.byte_trial,
    "trace: arrays": trace_trials.array_trial,
    "trace: archive": trace_trials.archive_trial,
    "trace: meta": trace_trials.meta_trial,
    "foreign trace: arrays": partial(trace_trials.array_trial, foreign=True),
    **{f"{kind} log: bytes": partial(log_trials.byte_trial, kind) for kind in log_trials.KINDS},
    **{
        f"{kind} checkpoint: {way}": partial(checkpoint_trials.trial, kind, way)
        for kind in checkpoint_trials.KINDS
        for way in ("bytes", "structure", "arrays")
    },
    **{f"{kind} log: structure": partial(log_trials.structure_trial, kind) for kind in log_trials.KINDS},
}

# A file is read in milliseconds; what takes seconds was made to take for ever.
LIMIT_S = 20


@dataclass(slots=True)
class Outcome:
    """What became of a trial's mutants."""

    name: str
    verdicts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest_s: float = 0.0


def run_trial(name: str, folder: Path, seeds: range) -> Outcome:
    """Try mutants one after the other; a failure does not end it."""
    outcome = Outcome(name)
    folder.mkdir(parents=True, exist_ok=True)
    attempt = TRIALS[name](folder)
    for seed in seeds:
        started = time.perf_counter()
        try:
            with _limited():
                verdict = attempt(seed)
        except Exception as error:
            # Whatever it is, it is no clean refusal.
            verdict = "failed"
            outcome.failures.append(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}")
        outcome.verdicts[verdict] += 1
        outcome.slowest_s = max(outcome.slowest_s, time.perf_counter() - started)
    return outcome


@contextmanager
def _limited() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TimeoutError(f"more than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    left, _ = signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, before)
