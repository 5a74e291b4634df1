"""Gates and forecasts for tests of gate policies, by hand or random."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from prescope.solver.online import GateState, LayerForecast


def gate(
    cpu_ns: Iterable[int],
    gpu_ns: Iterable[int] | None = None,
    *,
    arrival_ns: Iterable[int] | None = None,
    copy_ns: int = 100,
    slots: int = 4,
    future: tuple[LayerForecast, ...] = (),
    **changes: Any,
) -> GateState:
    """A gate; experts without host time have no tokens, `arrival_ns` is -1 for all unless given."""
    cpu = np.array(list(cpu_ns), dtype=np.int64)
    gpu = np.array(list(gpu_ns) if gpu_ns is not None else (cpu > 0), dtype=np.int64)
    arrival = np.full(cpu.shape, -1, dtype=np.int64)
    if arrival_ns is not None:
        arrival = np.array(list(arrival_ns), dtype=np.int64)
    fields = {
        "layer": 0,
        "gpu_ns": gpu * (cpu > 0),
        "cpu_ns": cpu,
        "active": cpu > 0,
        "arrival_ns": arrival,
        "copy_ns": copy_ns,
        "link_free_ns": 0,
        "usable_slots": slots,
        "free_slots": slots,
        "host_computes": True,
        "future": future,
    }
    return GateState(**{**fields, **changes})


def coming(
    cpu_ns: Iterable[float], *, held: Iterable[int] = (), dense_ns: int = 10, copy_ns: int = 100
) -> LayerForecast:
    """A forecast; the device takes a hundredth of the host's time."""
    cpu = np.array(list(cpu_ns), dtype=np.float64)
    mask = np.zeros(cpu.shape, dtype=bool)
    mask[list(held)] = True
    return LayerForecast(
        cpu_ns=cpu,
        gpu_ns=cpu / 100,
        probability=(cpu > 0).astype(np.float64),
        held=mask,
        dense_ns=dense_ns,
        copy_ns=copy_ns,
    )


@st.composite
def gates(draw: st.DrawFn, *, experts: int = 6, late: bool = True, host: bool | None = True) -> GateState:
    """Random gates of a few experts with small times, so that ties are common."""
    times = st.lists(st.integers(0, 30), min_size=experts, max_size=experts)
    arrivals = st.sampled_from([-1, -1, 0, *([7, 25] if late else [])])
    return gate(
        draw(times),
        [time + 1 for time in draw(times)],
        arrival_ns=draw(st.lists(arrivals, min_size=experts, max_size=experts)),
        copy_ns=draw(st.integers(1, 40)),
        slots=draw(st.integers(0, 3)),
        link_free_ns=draw(st.integers(0, 30)),
        host_free_ns=draw(st.sampled_from([0, 0, 9])),
        host_computes=draw(st.booleans()) if host is None else host,
    )
