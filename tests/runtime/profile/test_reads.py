"""Reads in flight: how many, how they are counted, what happens to their errors."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_time import FakeClock
from stored_experts import MemoryExperts
from tiny_models import random_model

from prescope.runtime.profile import quick_settings, read_times
from prescope.runtime.profile.raw_file import RawFile
from prescope.runtime.profile.read_times import (
    expert_reader,
    time_expert_reads,
    time_per_read,
    time_raw_reads,
    while_reading,
)
from prescope.runtime.profile.stored_experts import experts_in_memory, shuffled_experts

SETTINGS = replace(quick_settings(), depths=(1, 2, 4), reads=3)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_time_per_read_is_the_whole_time_over_all_reads(depth: int) -> None:
    clock, lock, workers = FakeClock(), threading.Lock(), []

    def read(worker: int) -> None:
        clock.advance(1000)
        with lock:
            workers.append(worker)

    # As if the disk served one after the other: the time per read is that of one, whatever the depth.
    assert time_per_read(read, depth=depth, reads=6, clock=clock) == 1000
    assert sorted(workers) == sorted(list(range(depth)) * 6)


def test_as_many_reads_are_in_flight_as_promised() -> None:
    together = threading.Barrier(4, timeout=20)
    store = MemoryExperts(random_model(), observe=together.wait)
    read = expert_reader(store, 4, seed=0)
    # The barrier opens only when four read at once; one fewer would break it.
    time_per_read(read, depth=4, reads=3, clock=FakeClock())
    assert store.most_running == 4 and len(store.read_experts) == 12


def test_every_depth_gets_a_point_and_no_expert_is_read_twice_in_a_row() -> None:
    store = MemoryExperts(random_model(experts=8))
    series = time_expert_reads(store, SETTINGS, clock=FakeClock(tick_ns=100))
    assert (series.kind, series.xs) == ("expert-read", (1, 2, 4))
    everything = set(shuffled_experts(store, 0))
    assert set(store.read_experts[: len(everything)]) == everything == set(store.read_experts)


def test_an_error_of_a_reader_is_raised() -> None:
    def fail(worker: int) -> None:
        raise OSError(f"reader {worker} cannot read")

    for depth in (1, 3):
        with pytest.raises(OSError, match=r"reader \d cannot read"):
            time_per_read(fail, depth=depth, reads=2, clock=FakeClock())
    with pytest.raises(OSError, match="cannot read"), while_reading(fail, 2):
        pass


def test_an_interrupt_before_all_have_begun_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **keywords: Any) -> Any:
            if arguments[1] == 2:
                raise KeyboardInterrupt
            return super().submit(*arguments, **keywords)

    monkeypatch.setattr(read_times, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        time_per_read(lambda worker: None, depth=4, reads=1, clock=FakeClock())


def test_reads_go_on_during_the_block_and_end_with_it() -> None:
    enough = threading.Event()
    done: list[int] = []

    def read(worker: int) -> None:
        done.append(worker)
        if {0, 1} <= set(done[-200:]) or len(done) > 100_000:
            enough.set()

    with while_reading(read, 2):
        assert enough.wait(20)
    after = len(done)
    assert threading.active_count() >= 1 and len(done) == after and set(done) == {0, 1}
    with pytest.raises(KeyError, match="the block's"), while_reading(read, 2):
        raise KeyError("the block's")


def test_experts_in_memory_are_the_stored_ones() -> None:
    store = MemoryExperts(random_model(layers=2, experts=5))
    parts = experts_in_memory(store, seed=3)
    assert len(parts) == 10
    for (layer, expert), found in zip(shuffled_experts(store, 3), parts, strict=True):
        wanted = store.views(layer, store.row(layer, expert))
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_pieces_of_a_file_are_read_whole_and_aligned(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(40_000))
    with RawFile(path, direct=False) as file:
        read = file.reader(8192, workers=2, seed=0)
        assert [read(worker) for worker in (0, 1, 0)] == [8192] * 3
        for size in (0, 1000, 40_960):
            with pytest.raises(ValueError, match=r"expected a multiple of 4096 in \[4096, 40000\]"):
                file.reader(size, workers=1, seed=0)
        settings = replace(SETTINGS, read_bytes=(4096, 8192, 2**20))
        series = time_raw_reads(file, settings, depth=2, clock=FakeClock(tick_ns=60))
        assert series is not None and (series.xs, series.workers) == ((4096, 8192), 2)
        assert time_raw_reads(file, replace(SETTINGS, read_bytes=(2**20,)), depth=1) is None
        path.write_bytes(b"")
        with pytest.raises(OSError, match="expected 8192 bytes at .* got 0"):
            read(0)
    file.close()
