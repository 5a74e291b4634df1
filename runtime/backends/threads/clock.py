"""Real time: reading it, and sleeping until an absolute deadline."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable

_PR_SET_TIMERSLACK = 29
_PR_GET_TIMERSLACK = 30
# Sleeps end this late even with the least timer slack; the rest is spun away.
_OVERSHOOT_NS = 60_000
# A longer sleep is cut into pieces, so that an abort is noticed.
_SLICE_NS = 20_000_000

now_ns = time.perf_counter_ns


def set_timer_slack(slack_ns: int) -> int | None:
    """Make this thread's sleeps end within ``slack_ns`` of their deadline; returns the slack before.

    ``None`` where the system has no such setting; sleeps then end some 50 us later.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    before = int(libc.prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0))
    libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(max(1, slack_ns)), 0, 0, 0)
    return before if before > 0 else None


def hold_until(deadline_ns: int, aborted: Callable[[], bool]) -> bool:
    """Sleep until a deadline of `now_ns`; returns early with ``False`` when aborted."""
    while True:
        left = deadline_ns - now_ns()
        if left <= 0:
            return True
        if aborted():
            return False
        if left > _OVERSHOOT_NS:
            time.sleep(min(left - _OVERSHOOT_NS, _SLICE_NS) / 1e9)
