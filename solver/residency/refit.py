"""Fit the outlook model again while it is used, beside the steps or between them."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from logging import getLogger
from types import TracebackType

from prescope.formulation.checks import require_int
from prescope.formulation.demand import FloatArray
from prescope.solver.residency.outlook_model import OutlookSums

_LOG = getLogger(__name__)


class Refit:
    """Goes on from the sums of the offline fit and solves for the coefficients every so often.

    Steps are counted at once, which takes well under a millisecond; only the solving is done by a thread.
    At most one solve is under way: while it is, none is begun.

    Parameters
    ----------
    sums
        Start; it is copied.
    every
        Steps between two fits.
    memory
        Steps after which an observed step, or the offline fit, counts only ``1/e``. A step of a batch counts
        as one, however many tokens it has.
    background
        Whether a thread solves. Otherwise `observe` does, and results do not depend on timing.
    """

    def __init__(
        self, sums: OutlookSums, *, every: int = 32, memory: int = 20_000, background: bool = True
    ) -> None:
        require_int("every", every, 1)
        require_int("memory", memory, 1)
        self._sums, self._every, self._fade = sums.copy(), every, 1.0 - 1.0 / memory
        self._steps = self.fits = 0
        self._done: FloatArray | None = None
        self._running: Future[FloatArray] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="prescope-refit") if background else None

    def observe(self, rows: FloatArray, use: FloatArray) -> None:
        """A step is over; see `OutlookSums.observe`."""
        self._sums.fade(self._fade)
        self._sums.observe(rows, use)
        self._steps += 1
        if self._steps % self._every or not self._sums.weight:
            return
        if self._pool is None:
            self._done = self._sums.solve()
            self.fits += 1
        elif self._running is None:
            self._running = self._pool.submit(self._sums.copy().solve)

    def forget_waiting(self) -> None:
        """The next step goes on with other text; see `OutlookSums.forget_waiting`."""
        self._sums.forget_waiting()

    def latest(self, current: FloatArray) -> FloatArray:
        """The newest coefficients, or ``current`` where there are none yet; it never waits."""
        if self._running is not None and self._running.done():
            failure = self._running.exception()
            if failure is None:
                self._done = self._running.result()
                self.fits += 1
            else:
                _LOG.warning("residents are kept by the model fitted before: %s", failure)
            self._running = None
        if self._done is None:
            return current
        return self._done

    def close(self) -> None:
        """Stop the thread; what it is solving is waited for."""
        if self._pool is not None:
            self._pool.shutdown()

    def __enter__(self) -> Refit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
