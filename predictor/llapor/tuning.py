"""Tuning the networks while running, when they no longer say what happens."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from prescope.formulation.checks import require_int
from prescope.predictor.llapor.features import chosen
from prescope.predictor.llapor.losses import loss_of
from prescope.predictor.llapor.model import LlaporModel
from prescope.predictor.llapor.network import SourceNetwork

if TYPE_CHECKING:
    from prescope.predictor.llapor.predictor import Llapor, Step

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSettings:
    """When tuning starts and how far it goes.

    Parameters
    ----------
    window
        Tokens over which the error is taken.
    error
        Share of the window's tokens that went to other experts than expected, at which tuning starts.
    kept
        Rows of each source that are kept to learn from, the newest ones.
    iterations, seconds
        Bounds of one round of one source.
    batch_rows, rate
        Rows per iteration, drawn from the kept ones, and learning rate.
    seed
        Of the draws.
    """

    window: int = 64
    error: float = 0.10
    kept: int = 1024
    iterations: int = 8
    seconds: float = 0.25
    batch_rows: int = 128
    rate: float = 2e-3
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("window", "iterations", "batch_rows"):
            require_int(name, getattr(self, name), 1)
        require_int("kept", self.kept, self.window)
        if not (0 < self.error < 1 and self.seconds > 0 and self.rate > 0):
            raise ValueError(
                "expected error in (0, 1), seconds and rate > 0, "
                f"got {self.error}, {self.seconds}, {self.rate}"
            )


class _Watched:
    """The newest rows of one source and how its forecasts of the window fared."""

    def __init__(self, network: SourceNetwork, settings: TuningSettings, top_k: int) -> None:
        self.network = copy.deepcopy(network).requires_grad_(True)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=settings.rate, weight_decay=0.0)
        inputs = network.enter.shape[1]
        self.rows = torch.zeros(settings.kept, inputs)
        self.ids = torch.full((settings.kept, network.horizons, top_k), -1, dtype=torch.int64)
        self.filled = self.next = 0
        self.expected = torch.zeros(network.horizons, network.experts)
        self.happened = torch.zeros(network.horizons, network.experts)
        self.tokens = 0
        self.rounds = 0

    def take(self, rows: Tensor, logits: Tensor, ids: Tensor) -> None:
        kept = self.rows.shape[0]
        self.expected += torch.sigmoid(logits).sum(dim=0)
        self.happened += chosen(ids, logits.shape[2]).sum(dim=0)
        self.tokens += len(rows)
        rows, ids = rows[-kept:], ids[-kept:]
        at = (self.next + torch.arange(len(rows))) % kept
        self.rows[at], self.ids[at] = rows, ids
        self.next = (self.next + len(rows)) % kept
        self.filled = min(kept, self.filled + len(rows))

    def close_window(self) -> float:
        """Error of the window, which begins anew."""
        wrong = (self.expected - self.happened).abs().sum() / 2.0
        error = float(wrong / self.happened.sum().clamp_min(1.0))
        self.expected.zero_()
        self.happened.zero_()
        self.tokens = 0
        return error


class Tuner:
    """Watches every source and tunes those whose forecasts of the last tokens were off.

    The error is the share of a window's routed tokens that experts got beyond, or short of, what was
    expected of them. A round runs on a background thread, one at a time, on a copy of the network, which
    replaces the one in use when it is done; steps never wait for it. Rows, rounds and time are bounded.

    Parameters
    ----------
    model
        Whose networks.
    settings
        When and how far.
    synchronous
        Run each round at once in the calling thread, without a time bound: for tests and measurements that
        must come out the same every time.
    """

    def __init__(
        self, model: LlaporModel, settings: TuningSettings | None = None, *, synchronous: bool = False
    ) -> None:
        self._settings = settings or TuningSettings()
        self._top_k = model.facts.top_k
        self._synchronous = synchronous
        self._watched: dict[int, _Watched] = {}
        self._generator = torch.Generator().manual_seed(self._settings.seed)
        self._thread: Thread | None = None
        self._busy: _Watched | None = None
        self.errors: dict[int, float] = {}
        """Error of each source's last full window."""

    @property
    def rounds(self) -> int:
        """Rounds done so far, over all sources."""
        return sum(watched.rounds for watched in self._watched.values())

    def end_step(self, predictor: Llapor, step: Step) -> None:
        """Take in a finished step: what was forecast in it, and what happened."""
        with torch.inference_mode(False):
            # What is made here is learnt from later, which tensors of inference mode cannot be.
            self._take(predictor, step)

    def _take(self, predictor: Llapor, step: Step) -> None:
        ids = torch.stack([one.clone() for one in step.ids], dim=1)
        for source in sorted(step.rows):
            logits = step.logits[source]
            watched = self._watched.get(source)
            if watched is None:
                watched = _Watched(predictor.networks[source], self._settings, self._top_k)
                self._watched[source] = watched
            if self._busy is watched and self._thread is not None and self._thread.is_alive():
                # Its rows are being learnt from; what happens meanwhile is not missed for long.
                continue
            watched.take(step.rows[source], logits, ids[:, source : source + logits.shape[1]])
            if watched.tokens < self._settings.window:
                continue
            error = self.errors[source] = watched.close_window()
            if error > self._settings.error:
                self._start(watched, lambda tuned, at=source: predictor.replace_network(at, tuned))  # type: ignore[misc]

    def close(self) -> None:
        """Wait for a running round; others may be started later."""
        if self._thread is not None:
            self._thread.join()

    def _start(self, watched: _Watched, use: Callable[[SourceNetwork], None]) -> None:
        if self._synchronous:
            self._round(watched, use, bounded=False)
            return
        if self._thread is not None and self._thread.is_alive():
            # One round at a time; if the error stays, the next window asks again.
            return
        self._busy = watched
        self._thread = Thread(
            target=self._round,
            args=(watched, use),
            kwargs={"bounded": True},
            name="llapor-tuning",
            daemon=True,
        )
        self._thread.start()

    def _round(self, watched: _Watched, use: Callable[[SourceNetwork], None], *, bounded: bool) -> None:
        settings, until = self._settings, monotonic() + self._settings.seconds
        before = copy.deepcopy(watched.network.state_dict())
        with torch.inference_mode(False), torch.enable_grad():
            for _ in range(settings.iterations):
                at = torch.randint(watched.filled, (settings.batch_rows,), generator=self._generator)
                logits = watched.network(watched.rows[at])
                targets = chosen(watched.ids[at], logits.shape[2])
                watched.optimizer.zero_grad(set_to_none=True)
                loss_of("bce", logits, targets, targets).backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(watched.network.parameters(), 1.0)
                watched.optimizer.step()
                if bounded and monotonic() > until:
                    break
        if not all(bool(value.isfinite().all()) for value in watched.network.parameters()):
            logger.warning("a round of tuning came to numbers that are not finite and is given up")
            watched.network.load_state_dict(before)
            watched.optimizer.state.clear()
            return
        watched.rounds += 1
        with torch.inference_mode(False):
            use(copy.deepcopy(watched.network).requires_grad_(False).eval())
