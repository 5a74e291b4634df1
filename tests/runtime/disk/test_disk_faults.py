"""A failing disk gives a clear error, and the next read is right; what is refused is visible."""

import errno
import os
from pathlib import Path

import pytest
import torch
from disk_checkpoints import FaultyCalls, expert_tensors, forget, wanted_row, write_file

from prescope.runtime.disk import Checkpoint, DiskReadError, DiskStore, cached_bytes

SIZES = {"layers": (0, 1), "experts": 2, "hidden": 128, "inner": 64}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_file(tmp_path / "model.safetensors", expert_tensors("qwen", **SIZES), padding=8)
    return tmp_path / "model.safetensors"


def check(store: DiskStore, layer: int = 1, expert: int = 1) -> None:
    """The expert arrives as it should."""
    row = store.load_row(layer, expert)
    wanted = wanted_row(expert_tensors("qwen", **SIZES), "qwen", layer, expert, torch.float32)
    assert torch.equal(row, wanted.to(store.dtype))


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("refuse", ["", "read"])
def test_an_error_of_the_disk(file: Path, dtype: torch.dtype | None, refuse: str) -> None:
    calls = FaultyCalls(refuse_direct=refuse)
    with DiskStore.open(file, dtype=dtype, calls=calls) as store:
        check(store)
        before = store.reads
        for _ in range(3):
            calls.failing_reads = 1
            with pytest.raises(DiskReadError, match="got 0: Input/output error") as caught:
                store.load_row(1, 1)
            error = caught.value
            assert (error.errno, error.file, error.got_bytes) == (errno.EIO, file, 0)
            assert 0 < error.offset_bytes < file.stat().st_size
            assert error.expected_bytes > 0
            assert str(file) in str(error)
            assert store.reads == before
            opened = calls.opened
            check(store)
            assert calls.opened == opened + 1, "the file is opened again after a fault"
            check(store)
            assert calls.opened == opened + 1
            before = store.reads
            assert len(calls.descriptors) == 1
    assert not calls.descriptors


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("refuse", ["", "open"])
def test_short_reads_go_on_where_they_stopped(file: Path, dtype: torch.dtype | None, refuse: str) -> None:
    calls = FaultyCalls(refuse_direct=refuse)
    with DiskStore.open(file, dtype=dtype, calls=calls) as store:
        for most in (8192, 12288, 5000, 4096):
            calls.at_most = most
            check(store)
            check(store, 0, 0)


@pytest.mark.parametrize("most", [0, 1, 4095])
def test_a_read_that_gets_nowhere_is_an_error(file: Path, most: int) -> None:
    calls = FaultyCalls()
    with DiskStore.open(file, calls=calls) as store:
        if not store.direct:
            pytest.skip("no direct reads here")
        calls.at_most = most
        with pytest.raises(DiskReadError, match="the read came back short"):
            store.load_row(0, 1)
        calls.at_most = None
        check(store, 0, 1)


@pytest.mark.parametrize("refuse", ["", "open"])
def test_a_file_truncated_while_running(file: Path, refuse: str) -> None:
    calls = FaultyCalls(refuse_direct=refuse)
    with DiskStore.open(file, calls=calls) as store:
        check(store)
        whole = file.read_bytes()
        for size in (len(whole) - 1, len(whole) // 2, 10, 0):
            os.truncate(file, size)
            for _ in range(2):  # noticed by the read, then when it is opened again
                with pytest.raises(
                    DiskReadError,
                    match=f"now has {size} bytes instead of {len(whole)}: put it back as it was",
                ):
                    store.load_row(1, 1)
            with open(file, "r+b") as stream:
                stream.write(whole)
            check(store)
            assert len(calls.descriptors) == 1


def test_a_file_that_vanished_after_a_fault(file: Path) -> None:
    calls = FaultyCalls()
    with DiskStore.open(file, calls=calls) as store:
        moved = file.rename(file.with_name("elsewhere"))
        check(store)  # still open
        calls.failing_reads = 1
        for reason in ("Input/output error", "No such file or directory"):
            with pytest.raises(DiskReadError, match=reason):
                store.load_row(0, 0)
        moved.rename(file)
        check(store)


def test_a_file_that_cannot_be_opened_for_a_while(file: Path) -> None:
    calls = FaultyCalls()
    with DiskStore.open(file, calls=calls) as store:
        calls.failing_reads = calls.failing_opens = 1
        with pytest.raises(DiskReadError, match="Input/output error"):
            store.load_row(0, 0)
        with pytest.raises(DiskReadError, match="Too many open files") as caught:
            store.load_row(0, 0)
        assert caught.value.errno == errno.EMFILE
        check(store)


@pytest.mark.parametrize(
    ("refuse", "reason"), [("open", "direct reads are refused"), ("read", "direct reads fail")]
)
def test_where_direct_reads_are_refused_it_shows(file: Path, refuse: str, reason: str) -> None:
    calls = FaultyCalls(refuse_direct=refuse)
    with DiskStore.open(file, calls=calls) as store:
        assert not store.direct
        assert len(store.degraded) == 1
        assert reason in store.degraded[0]
        assert str(file) in store.degraded[0]
        for layer in range(2):
            for expert in range(2):
                check(store, layer, expert)
        assert calls.dropped_bytes >= 4 * store.row_bytes(0)
        if cached_bytes(file) is None or "tmpfs" in store.degraded[0]:
            return
        forget(file)
        for layer in range(2):
            for expert in range(2):
                check(store, layer, expert)
        store.read_tensor("model.layers.0.mlp.experts.0.down_proj.weight")
        assert cached_bytes(file) == 0


def test_a_store_opens_only_what_is_there(file: Path) -> None:
    checkpoint = Checkpoint.open(file)
    file.rename(file.with_name("elsewhere"))
    with pytest.raises(DiskReadError, match="No such file"):
        DiskStore.open(checkpoint)
    write_file(file, expert_tensors("mixtral"))
    with pytest.raises(DiskReadError, match="put it back as it was"):
        DiskStore.open(checkpoint)


def test_a_cache_that_cannot_be_dropped_shows(file: Path) -> None:
    calls = FaultyCalls(refuse_direct="open")
    with DiskStore.open(file, calls=calls) as store:
        calls.failing_drops = True
        check(store)
        check(store)
        assert store.degraded[0].count("and the page cache keeps it") == 1


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm")
def test_files_in_memory_are_read_and_named(tmp_path: Path) -> None:
    folder = Path("/dev/shm") / f"prescope-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    try:
        write_file(folder / "model.safetensors", expert_tensors("qwen", **SIZES), padding=8)
        with DiskStore.open(folder) as store:
            check(store)
            assert len(store.degraded) == 1
            assert "tmpfs keeps files in memory" in store.degraded[0]
    finally:
        (folder / "model.safetensors").unlink()
        folder.rmdir()


def test_nothing_is_degraded_where_reads_are_direct(file: Path) -> None:
    with DiskStore.open(file) as store:
        if not store.direct:
            pytest.skip("no direct reads here")
        assert store.degraded == ()


def test_a_closed_store_says_so(file: Path) -> None:
    store = DiskStore.open(file)
    store.close()
    store.close()
    with pytest.raises(ValueError, match="expected an open store"):
        store.load_row(0, 0)
