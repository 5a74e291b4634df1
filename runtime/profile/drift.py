"""Notices when steps take another time than planned, without crying wolf."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median

from prescope.formulation.checks import require_finite, require_int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEvent:
    """Plans and measurements have drifted apart, or come together again.

    Parameters
    ----------
    ratio
        Median of measured over planned time over the window.
    steps
        Steps observed until then.
    recovered
        ``True`` when they came together again.
    """

    ratio: float
    steps: int
    recovered: bool = False

    @property
    def message(self) -> str:
        """What to tell people."""
        if self.recovered:
            return f"steps take {self.ratio:.2f} times the planned time again: the costs fit"
        return (
            f"steps take {self.ratio:.2f} times the planned time (median, until step {self.steps}): the "
            "costs do not fit this machine as it is now; measure again with `prescope profile`"
        )


class DriftMonitor:
    """Compares planned with measured time over a sliding window of steps.

    Drift begins when the median ratio leaves ``[1 / (1 + threshold), 1 + threshold]`` and ends when it is
    back inside the same interval for half the threshold. Between the two nothing is said.

    Parameters
    ----------
    threshold
        Relative deviation that counts.
    window
        Steps in the median; nothing is said before there are that many.
    """

    def __init__(self, threshold: float = 0.2, window: int = 32) -> None:
        require_finite("threshold", threshold, 0.0)
        if threshold == 0:
            raise ValueError("expected threshold > 0, got 0")
        require_int("window", window, 1)
        self._threshold = float(threshold)
        self._ratios: deque[float] = deque(maxlen=window)
        self._window = window
        self._steps = 0
        self._drifting = False

    @property
    def drifting(self) -> bool:
        """Whether plans and measurements are apart."""
        return self._drifting

    @property
    def ratio(self) -> float | None:
        """Median of measured over planned time; ``None`` before the window is full."""
        return median(self._ratios) if len(self._ratios) == self._window else None

    def observe(self, planned_ns: int, measured_ns: int) -> DriftEvent | None:
        """Take note of one step.

        Parameters
        ----------
        planned_ns, measured_ns
            Its duration as planned and as it was, in nanoseconds. A step planned to take no time is left out.

        Returns
        -------
        DriftEvent or None
            When drift begins or ends with this step.
        """
        require_int("planned_ns", planned_ns, 0)
        require_int("measured_ns", measured_ns, 0)
        self._steps += 1
        if planned_ns == 0:
            return None
        self._ratios.append(measured_ns / planned_ns)
        ratio = self.ratio
        if ratio is None:
            return None
        limit = 1 + (self._threshold / 2 if self._drifting else self._threshold)
        outside = not 1 / limit <= ratio <= limit
        if outside == self._drifting:
            return None
        self._drifting = outside
        return DriftEvent(ratio=ratio, steps=self._steps, recovered=not outside)

    def reset(self) -> None:
        """Forget everything, as after a change of costs."""
        self._ratios.clear()
        self._steps = 0
        self._drifting = False
