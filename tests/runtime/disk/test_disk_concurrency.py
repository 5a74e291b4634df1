"""Several threads, long runs: right rows, bounded memory and files, nothing left behind."""

import gc
import os
import random
import threading
from pathlib import Path

import pytest
import torch
from disk_checkpoints import FaultyCalls, expert_tensors, forget, wanted_row, write_file

from prescope.runtime.disk import DiskReadError, DiskStore, cached_bytes, huge_page_bytes
from prescope.runtime.disk.buffers import BufferPool
from prescope.runtime.disk.memory import aligned_memory

SIZES = {"layers": (0, 1), "experts": 4, "hidden": 128, "inner": 64}
THREADS = 6


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_file(tmp_path / "model.safetensors", expert_tensors("qwen", **SIZES), padding=8)
    return tmp_path / "model.safetensors"


def in_threads(work) -> None:
    """Run a function of the thread's number in several threads; their failures are the test's."""
    failures: list[BaseException] = []

    def guarded(thread: int) -> None:
        try:
            work(thread)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a reader hangs"
    if failures:
        raise failures[0]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("faults", [False, True])
def test_threads_read_at_once(file: Path, dtype: torch.dtype, faults: bool) -> None:
    tensors = expert_tensors("qwen", **SIZES)
    wanted = {
        (layer, expert): wanted_row(tensors, "qwen", layer, expert, dtype)
        for layer in range(2)
        for expert in range(4)
    }
    calls = FaultyCalls()
    failed = []
    with DiskStore.open(file, dtype=dtype, calls=calls, staging_buffers=2) as store:
        slots = store.new_slots(THREADS)

        def work(thread: int) -> None:
            rng = random.Random(thread)
            for turn in range(60):
                layer, expert = rng.randrange(2), rng.randrange(4)
                slot = slots[thread]
                row = store.place(layer, expert, slot) if turn % 2 else slot[: store.elements(layer)]
                if faults and turn % 7 == 0:
                    calls.failing_reads += 1
                try:
                    store.read(layer, expert, row)
                except DiskReadError as error:
                    failed.append(error)
                    continue
                assert torch.equal(row, wanted[layer, expert])

        in_threads(work)
        assert bool(failed) == faults
        assert store.reads == THREADS * 60 - len(failed)
        calls.failing_reads = 0
        store.load_row(0, 0)
        assert len(calls.descriptors) == 1, "one file stays open, however often it failed"
    assert not calls.descriptors


def test_closing_while_others_read_waits_for_nobody_and_breaks_nothing(file: Path) -> None:
    calls = FaultyCalls()
    store = DiskStore.open(file, calls=calls)
    started = threading.Barrier(THREADS)

    def work(thread: int) -> None:
        started.wait(30)
        for turn in range(50):
            if thread == 0 and turn == 10:
                store.close()
            try:
                store.load_row(turn % 2, thread % 4)
            except ValueError as error:
                assert "expected an open store" in str(error)
                return

    in_threads(work)
    assert not calls.descriptors


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_no_file_stays_open(file: Path) -> None:
    gc.collect()
    before = open_files()
    for turn in range(20):
        calls = FaultyCalls()
        with DiskStore.open(file, calls=calls) as store:
            calls.failing_reads = turn % 3
            for _ in range(4):
                try:
                    store.load_row(0, 0)
                except DiskReadError:
                    continue
    assert open_files() == before
    DiskStore.open(file)  # forgotten without closing
    gc.collect()
    assert open_files() == before


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="needs /proc")
def test_memory_stays_flat(file: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for dtype in (torch.float32, torch.bfloat16):
        with DiskStore.open(file, dtype=dtype) as store:
            slot = store.new_slots(1)[0]

            def read(turns: int, store: DiskStore = store, slot: torch.Tensor = slot) -> None:
                for turn in range(turns):
                    row = store.place(turn % 2, turn % 4, slot) if turn % 2 else slot[: store.elements(0)]
                    store.read(turn % 2, turn % 4, row)

            read(200)
            before = resident()
            read(3000)
            assert resident() - before < 1 << 20
            assert store.staging_bytes <= 40 << 20


def test_the_page_cache_stays_clean(file: Path) -> None:
    with DiskStore.open(file) as store:
        if not store.direct or cached_bytes(file) is None or store.degraded:
            pytest.skip("no direct reads here, or no way to see the page cache")
        forget(file)
        assert cached_bytes(file) == 0
        for layer in range(2):
            for expert in range(4):
                store.load_row(layer, expert)
                store.read(layer, expert, torch.empty(store.elements(layer)))
        assert cached_bytes(file) == 0
    file.read_bytes()
    assert cached_bytes(file) >= file.stat().st_size


def test_waiting_for_a_buffer_ends(file: Path) -> None:
    pool = BufferPool(size_bytes=4096, most=2)
    seen: set[int] = set()

    def work(thread: int) -> None:
        for _ in range(50):
            with pool.lend() as buffer:
                buffer[0] = thread
                seen.add(id(buffer.obj))
                assert buffer[0] == thread

    in_threads(work)
    assert len(seen) <= 2
    with pytest.raises(ValueError, match="expected at least one buffer"):
        BufferPool(size_bytes=0, most=1)


def test_memory_for_slots_begins_at_a_page_and_may_be_huge(file: Path) -> None:
    for size in (1, 5000, (2 << 20) + 1, 5 << 20):
        memory = torch.frombuffer(aligned_memory(size), dtype=torch.uint8)
        assert len(memory) == size
        assert memory.data_ptr() % 4096 == 0
        assert not memory.any()
    with DiskStore.open(file) as store:
        slots = store.new_slots(64).fill_(1.0)
        assert slots.shape == (64, store.slot_elements(0))
        held = huge_page_bytes(slots)
        assert held is None or held % (2 << 20) == 0
