"""Headers are not trusted: everything wrong is a CheckpointError that names file and tensor."""

import json
import os
import random
import tracemalloc
from pathlib import Path

import pytest
import torch
from disk_checkpoints import expert_tensors, raw_file, write_file
from safetensors import safe_open

from prescope.runtime.disk import Checkpoint, CheckpointError, DiskStore

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
ZEROS = bytes(8)

BROKEN = {
    "empty file": (b"", "expected a header, got a file of 0 bytes"),
    "too short": (b"\x01\x00", "got a file of 2 bytes"),
    "header beyond the file": (raw_file({"a": F32}, b"")[:20], "truncated"),
    "absurd header": (b"\xff" * 8 + ZEROS, "at most 100000000 bytes"),
    "not JSON": (raw_file(b"{'a'", ZEROS), "expected a header of tensors"),
    "not UTF-8": (raw_file(b'{"\xff": 1}', ZEROS), "expected a header of tensors"),
    "not an object": (raw_file([1], ZEROS), "expected a header of tensors"),
    "metadata": (raw_file({"__metadata__": {"a": 1}, "a": F32}, ZEROS), "expected a header of tensors"),
    "not a tensor": (raw_file({"a": 3}, ZEROS), "a: expected dtype, shape and offsets"),
    "no shape": (raw_file({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, ZEROS), "a: expected dtype"),
    "more fields": (raw_file({"a": F32 | {"x": 1}}, ZEROS), "a: expected dtype, shape"),
    "negative": (raw_file({"a": F32 | {"shape": [-2]}}, ZEROS), "a: expected dtype, shape"),
    "fraction": (raw_file({"a": F32 | {"shape": [1.5]}}, ZEROS), "a: expected dtype, shape"),
    "huge number": (raw_file({"a": F32 | {"shape": [10**30]}}, ZEROS), "a: expected dtype, shape"),
    "many dimensions": (raw_file({"a": F32 | {"shape": [1] * 17}}, ZEROS), "a: expected dtype, shape"),
    "unknown type": (
        raw_file({"a": F32 | {"dtype": "Q4"}}, ZEROS),
        "a: expected an element type of .* got 'Q4'",
    ),
    "size and shape": (raw_file({"a": F32 | {"shape": [3]}}, ZEROS), r"a: expected 12 bytes for F32 \[3\]"),
    "backwards": (raw_file({"a": F32 | {"data_offsets": [8, 0]}}, ZEROS), "a: expected 8 bytes"),
    "product overflows": (raw_file({"a": F32 | {"shape": [2**62, 4]}}, ZEROS), "a: expected .* bytes"),
    "gap before": (raw_file({"a": F32 | {"data_offsets": [8, 16]}}, bytes(16)), r"a: .*\(a gap\)"),
    "overlap": (raw_file({"a": F32, "b": F32 | {"data_offsets": [4, 12]}}, bytes(12)), r"b: .*\(overlap\)"),
    "same place": (raw_file({"a": F32, "b": F32}, ZEROS), r"\(overlap\)"),
    "truncated data": (raw_file({"a": F32}, bytes(7)), "a: expected data up to .* truncated, fetch it again"),
    "more data": (raw_file({"a": F32}, bytes(9)), "data no tensor owns"),
    "deep": (raw_file(b'{"a":' + b"[" * 5000, ZEROS), "expected"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_header_is_refused(case: str, tmp_path: Path) -> None:
    data, message = BROKEN[case]
    file = tmp_path / "model.safetensors"
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=message) as caught:
        Checkpoint.open(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="got none: fetch it again"):
        Checkpoint.open(tmp_path / "absent.safetensors")
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(CheckpointError, match="got something else"):
        Checkpoint.open(tmp_path / "pipe.safetensors")


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop.safetensors"
    loop.symlink_to(loop)
    with pytest.raises(CheckpointError, match=r"readable safetensors file, got: .*symbolic link"):
        Checkpoint.open(loop)


def test_what_is_accepted_is_what_safetensors_sees(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(0, 2), "c": torch.tensor(3)}
    write_file(tmp_path / "model.safetensors", tensors, order="cab", padding=3)
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.names == ("a", "b", "c")
    with safe_open(tmp_path / "model.safetensors", "pt") as theirs:
        for name in theirs.keys():
            ours = checkpoint.tensor(name)
            assert ours.shape == tuple(theirs.get_slice(name).get_shape())
            assert ours.torch_dtype == tensors[name].dtype
    assert checkpoint.size_bytes == 32


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to four changes, most of them in the header."""
    changed = bytearray(data)
    header = int.from_bytes(data[:8], "little") + 8
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(min(len(changed), header) or 1)
        kind = rng.randrange(6)
        if kind == 0 and changed:
            changed[place % len(changed)] = rng.randrange(256)
        elif kind == 1:
            changed[place:place] = rng.choice(
                [b"9" * rng.randint(1, 30), b"[", b"]", b"{", b'"', b"-", b"e9", b"\0"]
            )
        elif kind == 2:
            del changed[place : place + rng.randint(1, 40)]
        elif kind == 3:
            del changed[rng.randrange(len(changed) + 1) :]
        elif kind == 4:
            changed[:8] = rng.choice(
                [0, 1, 2**31, 2**40, 2**63, len(data), rng.randrange(2 * header)]
            ).to_bytes(8, "little")
        else:
            other = rng.randrange(header)
            changed[place : place + 20] = data[other : other + 20]
    return bytes(changed)


def test_mutants_raise_checkpoint_errors_and_nothing_else(tmp_path: Path) -> None:
    seed_file = tmp_path / "model.safetensors"
    write_file(seed_file, expert_tensors("qwen", experts=2))
    data = seed_file.read_bytes()
    refused = 0
    tracemalloc.start()
    try:
        for seed in range(1500):
            seed_file.write_bytes(mutate(data, random.Random(seed)))
            try:
                DiskStore.open(seed_file).close()
            except CheckpointError as error:
                refused += 1
                assert str(seed_file) in str(error), error
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused > 1000
    assert peak < 8 << 20


def test_numbers_in_names_make_no_memory(tmp_path: Path) -> None:
    tensors = expert_tensors("qwen", experts=1, layers=[0])
    renamed = {name.replace("experts.0", "experts.999999"): tensor for name, tensor in tensors.items()}
    write_file(tmp_path / "model.safetensors", renamed)
    tracemalloc.start()
    with pytest.raises(
        CheckpointError, match=r"layers\.0\.mlp\.experts\.0\.gate_proj\.weight: expected this tensor"
    ):
        DiskStore.open(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    header = {
        f"model.layers.0.mlp.experts.{name}": {"dtype": "F32", "shape": [2**62, 0, 4], "data_offsets": [0, 0]}
        for name in ("gate_up_proj", "down_proj")
    }
    (tmp_path / "model.safetensors").write_bytes(raw_file(json.dumps(header).encode(), b""))
    with pytest.raises(CheckpointError, match="expected some weights"):
        DiskStore.open(tmp_path)
