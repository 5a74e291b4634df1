"""Routing traces: validation, reading and writing, and traces of other recorders."""

import io
import json
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_traces import example_trace, same_trace
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.instances import InstanceFileError, RoutingTrace, TraceMeta, read_trace, write_trace
from prescope.instances._npz import InMemory
from prescope.instances.trace_file import _digest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([2, 7, 255, 256, 300]), st.booleans())
def test_trace_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, seed: int, layers: int, experts: int, everything: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.npz"
    trace = example_trace(seed, layers=layers, experts=experts, everything=everything)
    ids = trace.topk_ids.copy()
    ids[seed % trace.tokens, seed % layers] = -1
    trace = replace(trace, topk_ids=ids)
    write_trace(path, trace)
    assert same_trace(read_trace(path), trace)


def test_same_trace_gives_same_bytes_and_small_ids_are_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        write_trace(tmp_path / name, example_trace())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert arrays["topk_ids"].dtype == np.uint8


def test_arrays_are_read_only_copies() -> None:
    trace = example_trace()
    ids = np.array(trace.topk_ids)
    again = replace(trace, topk_ids=ids)
    ids[0, 0] = 0
    assert np.array_equal(again.topk_ids, trace.topk_ids)
    with pytest.raises(ValueError, match="read-only"):
        again.topk_ids[0, 0, 0] = 1


def nan_weights() -> Any:
    weights = example_trace().topk_weights
    assert weights is not None
    return np.where(np.arange(weights.size).reshape(weights.shape) == 3, np.nan, weights)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "id too large": ({"topk_ids": np.full((17, 3, 2), 7)}, r"topk_ids in \[-1, 6\]"),
    "id below the sentinel": ({"topk_ids": np.full((17, 3, 2), -2)}, r"topk_ids in \[-1, 6\]"),
    "expert twice": ({"topk_ids": np.full((17, 3, 2), 4)}, r"got \[4, 4\] for token 0 in layer 0"),
    "wrong width": ({"topk_ids": np.zeros((17, 3, 1), dtype=int)}, "width top_k=2, got 1"),
    "flat ids": ({"topk_ids": np.zeros((17, 3), dtype=int)}, r"shape \[any, any, any\]"),
    "float ids": ({"topk_ids": np.zeros((17, 3, 2))}, "integer array, got float64"),
    "no tokens": ({"topk_ids": np.zeros((0, 3, 2), dtype=int)}, "tokens and layers >= 1"),
    "offsets too short": ({"seq_offsets": np.array([0])}, "rising from 0 to 17"),
    "offsets that end early": ({"seq_offsets": np.array([0, 16])}, "rising from 0 to 17"),
    "empty sequence": ({"seq_offsets": np.array([0, 5, 5, 17])}, "rising from 0 to 17"),
    "unknown phase": ({"phase": np.full(17, 2)}, r"phase in \[0, 1\]"),
    "short phase": ({"phase": np.zeros(16, dtype=int)}, r"shape \[17\]"),
    "padding of numbers": ({"padding": np.zeros(17)}, "boolean array"),
    "weights with NaN": ({"topk_weights": nan_weights()}, "finite topk_weights"),
    "wide weights": ({"topk_weights": np.zeros((17, 3, 2), dtype=np.float64)}, "float16 or float32"),
    "hidden of other layers": ({"hidden": np.zeros((17, 2, 4), dtype=np.float16)}, r"hidden of shape"),
    "float tokens": ({"token_ids": np.zeros(17)}, "integer array, got float64"),
    "too few tokens": ({"token_ids": np.zeros(16, dtype=int)}, r"token_ids of shape \[17\]"),
    "negative token": ({"token_ids": np.full(17, -2)}, r"token_ids in \[-1, "),
    "bytes of other layers": ({"expert_bytes": np.ones(2, dtype=int)}, "expert_bytes of shape"),
    "no bytes": ({"expert_bytes": np.zeros(3, dtype=int)}, r"expert_bytes in \[1"),
    "a list": ({"phase": [0] * 17}, "got list"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arrays_are_refused(case: str) -> None:
    change, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        replace(example_trace(), **change)


def archive(meta: Any, **arrays: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, meta=np.array(json.dumps(meta)), **arrays)
    return buffer.getvalue()


def checksum(meta: Any, arrays: dict[str, Any]) -> str:
    return _digest(meta, {name: InMemory(array) for name, array in arrays.items()})


def own_parts(trace: RoutingTrace) -> tuple[dict[str, Any], dict[str, Any]]:
    meta = {"format": "prescope-routing-trace", "version": 1, **asdict(trace.meta)}
    return meta, {"topk_ids": trace.topk_ids, "seq_offsets": trace.seq_offsets, "phase": trace.phase}


META_WRONG = {
    "future": ({"version": 3}, "meta.version", "newer prescope: upgrade"),
    "another format": ({"format": "x"}, "meta.format", "Name a routing trace"),
    "unknown field": ({"colour": 1}, "meta", "colour"),
    "wrong type": ({"model": 3}, "meta.model", "expected str, got int"),
    "wrong number": ({"experts": 0}, "arrays", r"expected experts in \[1"),
}


@pytest.mark.parametrize("case", META_WRONG)
def test_wrong_meta_is_named(tmp_path: Path, case: str) -> None:
    change, field, message = META_WRONG[case]
    meta, arrays = own_parts(example_trace(everything=False))
    meta |= change
    meta["sha256"] = checksum(meta, arrays)
    path = tmp_path / "x.npz"
    path.write_bytes(archive(meta, **arrays))
    with pytest.raises(InstanceFileError, match=message) as caught:
        read_trace(path)
    assert caught.value.field == field


def test_version_is_the_oldest_that_holds_the_content(tmp_path: Path) -> None:
    """Readers of before token ids read what has none; and nothing is version 1 that does not belong there."""
    whole = example_trace()
    for trace, version in ((whole, 2), (replace(whole, token_ids=None), 1)):
        write_trace(tmp_path / "x.npz", trace)
        with np.load(tmp_path / "x.npz", allow_pickle=False) as arrays:
            assert json.loads(str(arrays["meta"]))["version"] == version
        assert same_trace(read_trace(tmp_path / "x.npz"), trace)
    meta, arrays = own_parts(whole)
    arrays["token_ids"] = whole.token_ids
    meta["sha256"] = checksum(meta, arrays)
    (tmp_path / "x.npz").write_bytes(archive(meta, **arrays))
    with pytest.raises(InstanceFileError, match="expected version 2 for token_ids, got 1"):
        read_trace(tmp_path / "x.npz")


def test_altered_array_does_not_match_its_checksum(tmp_path: Path) -> None:
    meta, arrays = own_parts(example_trace(everything=False))
    meta["sha256"] = checksum(meta, arrays)
    path = tmp_path / "x.npz"
    path.write_bytes(archive(meta, **arrays))
    read_trace(path)
    path.write_bytes(archive(meta, **{**arrays, "phase": 1 - arrays["phase"]}))
    with pytest.raises(InstanceFileError, match="checksum"):
        read_trace(path)


@pytest.mark.parametrize("name", ["phase", "colour", "topk_probs"])
def test_arrays_too_few_too_many_or_twice_are_refused(tmp_path: Path, name: str) -> None:
    meta, arrays = own_parts(example_trace(everything=False))
    arrays["topk_weights"] = np.zeros((17, 3, 2), dtype=np.float16)
    if name in arrays:
        del arrays[name]
    else:
        arrays[name] = arrays["topk_weights"]
    meta["sha256"] = checksum(meta, arrays)
    path = tmp_path / "x.npz"
    path.write_bytes(archive(meta, **arrays))
    with pytest.raises(InstanceFileError, match="expected the arrays topk_ids, seq_offsets, phase, got"):
        read_trace(path)


def test_layout_of_other_recorders_is_read(tmp_path: Path) -> None:
    trace = example_trace()
    ids = trace.topk_ids.astype(np.uint8)
    ids[4, 1] = 255
    assert trace.topk_weights is not None and trace.expert_bytes is not None
    meta = {"model": "m", "layers": 3, "experts": 7, "top_k": 2, "licence": "L", "source": "S", "note": "N"}
    path = tmp_path / "other.npz"
    arrays = {
        "topk_ids": ids,
        "topk_probs": trace.topk_weights,
        "seq_offsets": trace.seq_offsets,
        "phase": trace.phase,
        "expert_bytes": trace.expert_bytes,
    }
    path.write_bytes(archive(meta, **arrays))
    read = read_trace(path)
    assert read.meta == TraceMeta(model="m", experts=7, top_k=2, source="source: S; licence: L", notes="N")
    assert read.topk_ids[4, 1].tolist() == [-1, -1]
    assert np.array_equal(read.topk_ids[5:], trace.topk_ids[5:])
    assert read.topk_weights is not None and np.array_equal(read.topk_weights, trace.topk_weights)
    path.write_bytes(archive({**meta, "experts": 256}, **arrays))
    with pytest.raises(InstanceFileError, match="expected int16 topk_ids for 256 experts"):
        read_trace(path)
    path.write_bytes(archive({"model": "m"}, **arrays))
    with pytest.raises(InstanceFileError, match=r"meta.experts: expected int, got None"):
        read_trace(path)


def test_hostile_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"

    def refused(message: str) -> None:
        with pytest.raises(InstanceFileError, match=message):
            read_trace(path)

    with pytest.raises(InstanceFileError, match="regular file"):
        read_trace(tmp_path / "absent.npz")
    path.write_bytes(b"")
    refused("npz archive")
    np.savez(path, allow_pickle=True, meta=np.array("{}"), topk_ids=np.array([{}], dtype=object))
    refused("topk_ids: expected an array of plain numbers")
    np.savez(path, topk_ids=np.zeros(3))
    refused("meta: expected one JSON text")
    np.savez(path, meta=np.array("[" * 100_000))
    refused("meta: expected JSON")
    claim = b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<i8', 'fortran_order': False, 'shape': (9000000000,)}"
    with zipfile.ZipFile(path, "w") as whole:
        whole.writestr("topk_ids.npy", claim.ljust(127) + b"\n" + bytes(80))
    refused(r"\(9000000000,\) of int64 in 80 bytes")
    np.savez(path, meta=np.array([0x110000, 65], dtype="<u4").view("<U2"))
    refused("meta: expected an array of plain numbers, got characters that do not exist")
    for odd in (np.zeros(3, dtype="V8"), np.zeros(3, dtype="M8[s]"), np.zeros(3, dtype="c16")):
        np.savez(path, topk_ids=odd)
        refused("expected an array of plain numbers")
    with zipfile.ZipFile(path, "w") as whole:
        for number in range(2000):
            whole.writestr(f"an entry with a long name, number {number}", b"")
    refused(r"at most 64 arrays in the archive, got \d+ bytes")
    with pytest.raises(InstanceFileError, match=r"\.npz"):
        write_trace(tmp_path / "x.zip", example_trace())


def test_size_after_decompression_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import prescope.instances._npz as npz

    monkeypatch.setattr(npz, "MAX_TRACE_BYTES", 10**5)
    np.savez_compressed(tmp_path / "bomb.npz", topk_ids=np.zeros(10**6))
    with pytest.raises(InstanceFileError, match="expected at most 100000 bytes"):
        read_trace(tmp_path / "bomb.npz")


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no recorded traces at {SHARED}")
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("gptoss_20b", (34951, 24, 4)),
        ("gptoss_120b", (149, 36, 2)),
        ("qwen3_30b_a3b", (156, 48, 6)),
    ],
)
def test_recorded_traces_are_read(name: str, shape: tuple[int, int, int], tmp_path: Path) -> None:
    trace = read_trace(SHARED / f"{name}.npz")
    assert trace.topk_ids.shape == shape
    assert "Apache-2.0" in trace.meta.source
    with np.load(SHARED / f"{name}.npz", allow_pickle=False) as arrays:
        ids = arrays["topk_ids"].astype(int)
        assert np.array_equal(np.where(ids == 255, -1, ids), trace.topk_ids)
        assert trace.topk_weights is not None
        assert np.array_equal(arrays["topk_probs"], trace.topk_weights)
