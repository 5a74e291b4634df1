"""Rows are bit for bit what safetensors loads, wherever the data lies and wherever the row does."""

import tempfile
from pathlib import Path

import pytest
import torch
from disk_checkpoints import (
    STYLES,
    FaultyCalls,
    dense_tensors,
    expert_tensors,
    wanted_row,
    write_file,
    write_shards,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from prescope.runtime.disk import DiskStore

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
GUARD = 64


def same(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Equal in type, shape and every bit."""
    return (
        got.dtype == wanted.dtype
        and got.shape == wanted.shape
        and torch.equal(
            got.contiguous().reshape(-1).view(torch.uint8), wanted.contiguous().reshape(-1).view(torch.uint8)
        )
    )


def check_all_rows(store: DiskStore, tensors: dict[str, torch.Tensor], style: str, shift: int) -> None:
    """Read every expert into a placed row and into one that lies anywhere; nothing outside it may change."""
    slot = store.new_slots(1)[0]
    for layer, decoder_layer in enumerate(store.decoder_layers):
        size = store.elements(layer)
        anywhere = torch.full((size + 2 * GUARD + shift,), 7.0, dtype=store.dtype)
        for expert in range(store.experts):
            wanted = wanted_row(tensors, style, decoder_layer, expert, store.dtype)
            slot.fill_(7.0)
            placed = store.place(layer, expert, slot)
            taken = store.read(layer, expert, placed)
            assert same(placed, wanted)
            assert taken > 0
            first = placed.storage_offset() - slot.storage_offset()
            assert (slot[:first] == 7.0).all()
            assert (slot[first + size :] == 7.0).all()
            row = anywhere[GUARD + shift : GUARD + shift + size]
            store.read(layer, expert, row)
            assert same(row, wanted)
            assert (anywhere[: GUARD + shift] == 7.0).all()
            assert (anywhere[GUARD + shift + size :] == 7.0).all()
            assert same(store.load_row(layer, expert), wanted)


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, object]:
    """Any way of storing a small checkpoint: style, sizes, types, order in the file, place of the data."""
    return {
        "style": draw(st.sampled_from(STYLES)),
        "layers": sorted(draw(st.sets(st.integers(0, 30), min_size=1, max_size=2))),
        "experts": draw(st.integers(1, 3)),
        "hidden": draw(st.sampled_from([1, 3, 8, 64, 96])),
        "inner": draw(st.sampled_from([1, 2, 5, 64, 128])),
        "stored": draw(st.sampled_from(DTYPES)),
        "wanted": draw(st.none() | st.sampled_from(DTYPES)),
        "padding": draw(st.integers(0, 40) | st.sampled_from([512, 4096, 4095])),
        "order": draw(st.none() | st.randoms(use_true_random=False)),
        "shift": draw(st.integers(0, 9)),
        "direct": draw(st.sampled_from(["", "", "open", "read"])),
    }


BLOCKS = {
    "style": "qwen", "layers": [0], "experts": 2, "hidden": 64, "inner": 128, "stored": torch.bfloat16,
    "wanted": None, "order": None, "shift": 0, "direct": "",
}  # fmt: skip


@given(layouts())
@example(BLOCKS | {"padding": 0})
@example(BLOCKS | {"padding": 1})
@example(BLOCKS | {"padding": 4000, "wanted": torch.float32})
@settings(max_examples=60)
def test_rows_are_what_safetensors_loads(layout: dict) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tensors = expert_tensors(
            layout["style"],
            layers=layout["layers"],
            experts=layout["experts"],
            hidden=layout["hidden"],
            inner=layout["inner"],
            dtype=layout["stored"],
        )
        order = sorted(tensors)
        if layout["order"] is not None:
            layout["order"].shuffle(order)
        file = Path(folder) / "model.safetensors"
        write_file(file, tensors, order=order, padding=layout["padding"])
        loaded = load_file(file)
        calls = FaultyCalls(refuse_direct=layout["direct"])
        with DiskStore.open(file, dtype=layout["wanted"], calls=calls) as store:
            assert store.dtype == (layout["wanted"] or layout["stored"])
            check_all_rows(store, loaded, layout["style"], layout["shift"])
        assert not calls.descriptors


def test_an_expert_may_be_in_several_files_and_types(tmp_path: Path) -> None:
    tensors = expert_tensors("qwen", hidden=64, inner=32)
    shards: list[dict[str, torch.Tensor]] = [{}, {}, {}]
    for index, name in enumerate(sorted(tensors)):
        tensors[name] = tensors[name].to(DTYPES[index % 3])
        shards[index % 2 + (index % 5 == 0)][name] = tensors[name]
    write_shards(tmp_path, shards)
    with DiskStore.open(tmp_path, dtype=torch.float32) as store:
        check_all_rows(store, tensors, "qwen", 1)


def test_large_rows_go_through_the_staging_buffer_in_pieces(tmp_path: Path) -> None:
    tensors = expert_tensors("qwen", layers=[0], experts=1, hidden=1024, inner=768, dtype=torch.float32)
    write_file(tmp_path / "model.safetensors", tensors, padding=3)
    wanted = wanted_row(tensors, "qwen", 0, 0, torch.float32)
    for dtype in (torch.float32, torch.bfloat16):
        with DiskStore.open(tmp_path, dtype=dtype) as store:
            assert store.row_bytes(0) > 4 << 20
            row = torch.empty(store.elements(0) + 1, dtype=dtype)[1:]
            store.read(0, 0, row)
            assert same(row, wanted.to(dtype))


def test_adjacent_matrices_are_one_read(tmp_path: Path) -> None:
    calls = FaultyCalls()
    tensors = expert_tensors("qwen", layers=[0], experts=2, hidden=64, inner=64)
    write_file(tmp_path / "model.safetensors", tensors)
    with DiskStore.open(tmp_path, calls=calls) as store:
        if not store.direct:
            pytest.skip("no direct reads here")
        before = calls.reads
        taken = store.read(0, 1, store.place(0, 1, store.new_slots(1)[0]))
        assert calls.reads == before + 1
        assert store.row_bytes(0) < taken <= store.row_bytes(0) + 2 * 4096
        assert (store.bytes_read, store.reads) == (taken, 1)


def test_a_placed_row_is_filled_without_a_copy(tmp_path: Path) -> None:
    """All of a row but the blocks it shares with its neighbours is handed to the system itself."""
    targets: list[tuple[int, int]] = []

    class Watching(FaultyCalls):
        def read(self, descriptor, buffers, offset_bytes):
            from prescope.runtime.disk.memory import address_of

            targets.extend((address_of(buffer), len(buffer)) for buffer in buffers)
            return super().read(descriptor, buffers, offset_bytes)

    tensors = expert_tensors("qwen", layers=[0], experts=2, hidden=128, inner=256, dtype=torch.bfloat16)
    write_file(tmp_path / "model.safetensors", tensors, padding=8)
    with DiskStore.open(tmp_path, calls=Watching()) as store:
        slot = store.new_slots(1)[0]
        row = store.place(0, 1, slot)
        targets.clear()
        store.read(0, 1, row)
        begin, end = row.data_ptr(), row.data_ptr() + store.row_bytes(0)
        direct = sum(size for address, size in targets if begin <= address and address + size <= end)
        assert direct >= store.row_bytes(0) - 4 * 4096


def test_the_place_of_an_expert_is_always_the_same(tmp_path: Path) -> None:
    write_file(tmp_path / "model.safetensors", expert_tensors("qwen"), padding=5)
    with DiskStore.open(tmp_path) as store:
        slot = store.new_slots(3)[1]
        assert store.place(1, 2, slot).data_ptr() == store.place(1, 2, slot).data_ptr()
        with pytest.raises(ValueError, match="expected a slot of at least"):
            store.place(0, 0, slot[1:])


@pytest.mark.parametrize("direct", ["", "open"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_placed_rows_are_whole_and_aligned_in_every_slot(
    direct: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    tensors = expert_tensors("qwen", hidden=7, inner=3, dtype=torch.float32)
    write_file(tmp_path / "model.safetensors", tensors, padding=8)
    with DiskStore.open(tmp_path, dtype=dtype, calls=FaultyCalls(refuse_direct=direct)) as store:
        room = store.new_slots(8).view(-1)
        for start in range(40):
            slot = room[start : start + store.slot_elements(1)]
            for expert in range(store.experts):
                row = store.place(1, expert, slot)
                assert row.shape == (store.elements(1),)
                assert row.data_ptr() % (16 if dtype.itemsize >= 4 else 2) == 0
                store.read(1, expert, row)
                assert same(row, wanted_row(tensors, "qwen", 1, expert, dtype))


@pytest.mark.parametrize("padding", [0, 1, 4, 4090])
def test_dense_tensors_are_what_safetensors_loads(padding: int, tmp_path: Path) -> None:
    tensors = expert_tensors("qwen", dtype=torch.bfloat16) | dense_tensors(hidden=700)
    write_file(tmp_path / "model.safetensors", tensors, padding=padding)
    loaded = load_file(tmp_path / "model.safetensors")
    with DiskStore.open(tmp_path) as store:
        for name, wanted in loaded.items():
            assert same(store.read_tensor(name), wanted)
            cast = store.read_tensor(name, dtype=torch.float16)
            assert same(cast, wanted.half() if wanted.is_floating_point() else wanted)


def test_rows_of_inference_mode_are_filled_too(tmp_path: Path) -> None:
    tensors = expert_tensors("qwen")
    write_file(tmp_path / "model.safetensors", tensors)
    with DiskStore.open(tmp_path, dtype=torch.bfloat16) as store:
        with torch.inference_mode():
            row = torch.zeros(store.elements(0), dtype=torch.bfloat16)
            assert not store.load_row(0, 0).is_inference()
        store.read(0, 1, row)
        assert same(row.clone(), wanted_row(tensors, "qwen", 0, 1, torch.bfloat16))


def test_rows_and_experts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "model.safetensors", expert_tensors("qwen"))
    with DiskStore.open(tmp_path) as store:
        good = torch.zeros(96)
        for row in (good[:95], good.double(), torch.zeros(192)[::2], good.view(2, 48), good.to("meta")):
            with pytest.raises(ValueError, match="expected a .*row"):
                store.read(0, 0, row)
        for layer, expert in ((2, 0), (-1, 0), (0, 3), (0, -1)):
            with pytest.raises(ValueError, match=r"expected a layer in \[0, 1\] and an expert in \[0, 2\]"):
                store.read(layer, expert, good)
        with pytest.raises(ValueError, match="at least one slot"):
            store.new_slots(0)
