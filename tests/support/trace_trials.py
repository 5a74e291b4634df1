"""Mutants of trace files (``.npz``), and whether each is refused or means what it says."""

from __future__ import annotations

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from example_traces import ARRAYS, example_trace, same_trace
from file_mutants import damaged_bytes, damaged_document, hostile_bytes
from json_trials import refused
from strict_json import same_json, strict_json

from prescope.instances import InstanceFileError, RoutingTrace, read_trace, write_trace
from prescope.instances._npz import InMemory
from prescope.instances.trace_file import _digest

Attempt = Callable[[int], str]
Arrays = dict[str, Any]

TYPES = ["f2", "f4", "f8", "i1", "u1", "i2", "i4", "i8", "u8", "?", "U3", "S4", "c8", ">i4", ">f4", "M8[s]"]


def byte_trial(folder: Path) -> Attempt:
    """Bytes of the archive are damaged, wherever."""
    path = folder / "trace.npz"
    original = example_trace()
    write_trace(path, original)
    whole = path.read_bytes()

    def attempt(seed: int) -> str:
        rng = random.Random(f"trace bytes {seed}")
        path.write_bytes((hostile_bytes if rng.random() < 0.1 else damaged_bytes)(whole, rng))
        return _judged(path, lambda trace: same_trace(trace, original), lambda trace: True)

    return attempt


def array_trial(folder: Path, *, foreign: bool = False) -> Attempt:
    """Values, types and shapes change, arrays vanish and appear, and the checksum is made anew."""
    path = folder / "trace.npz"
    original = example_trace()

    def attempt(seed: int) -> str:
        rng = random.Random(f"trace arrays {foreign} {seed}")
        meta, arrays = _parts(original, foreign=foreign)
        for _ in range(rng.randint(1, 2)):
            name = rng.choice([*arrays, "experts", "top_k"])
            if name not in arrays:
                meta[name] += rng.choice([-1, 1, 300, -(2**40)])
            elif rng.random() < 0.1:
                del arrays[name]
                if not arrays:
                    return "refused"
            elif rng.random() < 0.1:
                arrays[rng.choice(["hidden", "x", "../../x", "topk_probs", "meta2"])] = arrays[name]
            else:
                arrays[name] = altered(arrays[name], rng)
        if not foreign:
            meta["sha256"] = checksum(meta, arrays)
        path.write_bytes(archive(json.dumps(meta), arrays))
        return _judged(path, lambda trace: same_trace(trace, original), lambda trace: _as_said(trace, path))

    return attempt


def meta_trial(folder: Path) -> Attempt:
    """The JSON text inside is damaged as text or as a document, the checksum made anew where there is one."""
    path = folder / "trace.npz"
    original = example_trace()

    def attempt(seed: int) -> str:
        rng = random.Random(f"trace meta {seed}")
        meta, arrays = _parts(original, foreign=False)
        meta["sha256"] = checksum(meta, arrays)
        if rng.random() < 0.5:
            text = (hostile_bytes if rng.random() < 0.2 else damaged_bytes)(json.dumps(meta).encode(), rng)
            path.write_bytes(archive(text.decode("utf-8", errors="replace").replace("\0", "?"), arrays))
        else:
            changed = damaged_document(meta, rng)
            while changed == meta:
                changed = damaged_document(meta, rng)
            changed["sha256"] = checksum({**changed, "sha256": ""}, arrays)
            path.write_bytes(archive(json.dumps(changed), arrays))
        return _judged(path, lambda trace: same_trace(trace, original), lambda trace: _as_said(trace, path))

    return attempt


def archive_trial(folder: Path) -> Attempt:
    """Whole archives with valid sums around entries that lie: headers, names, types of compression, sizes."""
    path = folder / "trace.npz"
    original = example_trace()
    write_trace(path, original)
    with zipfile.ZipFile(path) as found:
        entries = {entry.filename: found.read(entry) for entry in found.infolist()}

    def attempt(seed: int) -> str:
        rng = random.Random(f"trace archive {seed}")
        changed = dict(entries)
        kind = rng.randrange(5)
        name = rng.choice(list(changed))
        if kind == 0:
            changed[name] = _lying_header(changed[name], rng)
        elif kind == 1:
            changed[name] = damaged_bytes(changed[name], rng)
        elif kind == 2:
            changed[rng.choice(["../../out.npy", "/etc/x.npy", "a/b.npy", "", "x" * 5000])] = changed[name]
        elif kind == 3:
            changed[name] = changed[name] + rng.randbytes(rng.randint(1, 9))
        buffer = io.BytesIO()
        methods = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
        with zipfile.ZipFile(buffer, "w", rng.choice(methods[: 2 if kind else 4])) as written:
            for entry, data in changed.items():
                written.writestr(zipfile.ZipInfo(entry or "."), data, rng.choice(methods[:2]))
        data = buffer.getvalue()
        if kind == 4:
            data = _lying_directory(data, rng)
        path.write_bytes(data)
        return _judged(path, lambda trace: same_trace(trace, original), lambda trace: _as_said(trace, path))

    return attempt


def altered(array: Any, rng: random.Random) -> Any:
    """Another type, fewer rows, one dimension more, or one value changed."""
    kind = rng.randrange(6)
    if kind == 0:
        try:
            return array.astype(rng.choice(TYPES))
        except (TypeError, ValueError):
            return array.astype("f8")
    if kind == 1:
        return array[: rng.randrange(len(array))] if array.shape and len(array) else array
    if kind == 2:
        return rng.choice([lambda a: a[..., None], lambda a: a.reshape(-1), lambda a: np.asfortranarray(a)])(
            array
        )
    if kind == 3:
        return np.concatenate([array, array]) if array.shape else array
    changed = np.array(array)
    if not changed.size or changed.dtype.kind not in "iufb":
        return changed
    at = tuple(rng.randrange(size) for size in changed.shape)
    if changed.dtype.kind == "b":
        changed[at] = not changed[at]
    elif changed.dtype.kind == "f":
        changed[at] = rng.choice([0.0, 1.5, np.nan, np.inf, -2.0])
    else:
        limits = np.iinfo(changed.dtype)
        changed[at] = rng.choice([0, 1, 5, 100, int(limits.max), int(limits.min)])
    return changed


def archive(meta: str, arrays: Arrays) -> bytes:
    """An ``.npz`` file as numpy writes it."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, meta=np.array(meta), **arrays)
    return buffer.getvalue()


def checksum(meta: dict[str, Any], arrays: Arrays) -> str:
    """What a file of the package has to say of this content."""
    return _digest(meta, {name: InMemory(array) for name, array in arrays.items()})


def _parts(trace: RoutingTrace, *, foreign: bool) -> tuple[dict[str, Any], Arrays]:
    arrays = {name: getattr(trace, name) for name in ARRAYS}
    if foreign:
        arrays["topk_probs"] = arrays.pop("topk_weights")
        return {
            "model": "test",
            "experts": trace.meta.experts,
            "top_k": trace.meta.top_k,
            "note": "n",
        }, arrays
    return {"format": "prescope-routing-trace", "version": 2, **asdict(trace.meta)}, arrays


def _judged(
    path: Path, unchanged: Callable[[RoutingTrace], bool], as_said: Callable[[RoutingTrace], bool]
) -> str:
    try:
        trace = read_trace(path)
    except InstanceFileError as error:
        return refused(error)
    assert as_said(trace), "accepted with another meaning"
    return "accepted, unchanged" if unchanged(trace) else "accepted as it says"


def _as_said(trace: RoutingTrace, path: Path) -> bool:
    """Compare with what numpy and the strict JSON reader make of the file."""
    with np.load(path, allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    meta = strict_json(str(arrays.pop("meta")).encode())
    known = {name: getattr(trace, name) for name in ARRAYS}
    for name, array in arrays.items():
        mine = known.pop({"topk_probs": "topk_weights"}.get(name, name))
        if name == "topk_ids" and array.dtype == np.uint8:
            array = np.where(array == 255, -1, array.astype(int))
        if mine is None or mine.shape != array.shape or not np.array_equal(mine, array):
            return False
    if any(array is not None and array.any() for array in known.values()):
        return False
    if "format" not in meta:
        return (trace.meta.model, trace.meta.experts, trace.meta.top_k) == (
            meta["model"],
            meta["experts"],
            meta["top_k"],
        )
    for name in ("format", "version", "sha256"):
        del meta[name]
    return same_json(asdict(trace.meta), meta)


def _lying_header(entry: bytes, rng: random.Random) -> bytes:
    """Another shape, type or order in the header of a ``.npy``, over the same bytes."""
    length = struct.unpack("<H", entry[8:10])[0]
    header = entry[10 : 10 + length].decode("latin1")
    choices = [
        ("'shape': (", f"'shape': ({rng.choice([0, 1, 7, 2**31, 2**62, 2**64, -1])}, "),
        ("'fortran_order': False", "'fortran_order': True"),
        (
            "'descr': '",
            f"'descr': '{rng.choice(['|O', '<V8', '<U9999999', '>', '|S0', '<m8[s]', '<i2,<i2'])}",
        ),
        ("{", rng.choice(["{{", "(" * 300, "{'x': 1, ", "{'descr': 'O', "])),
        ("}", rng.choice(["", "}" * 3, ", }", "__import__('os')}"])),
    ]
    old, new = rng.choice(choices)
    changed = header.replace(old, new, 1).encode("latin1")
    magic = rng.choice([entry[:8], entry[:6] + b"\x02\x00", entry[:6] + b"\x03\x00", entry[:6] + b"\x09\x00"])
    size = struct.pack("<I" if magic[6] >= 2 else "<H", len(changed) % 65536)
    return magic + size + changed + entry[10 + length :]


def _lying_directory(data: bytes, rng: random.Random) -> bytes:
    """Sizes, places, flags and counts in the archive's directory that are not true."""
    changed = bytearray(data)
    starts = [at for at in range(len(data) - 4) if data[at : at + 4] in (b"PK\x01\x02", b"PK\x05\x06")]
    start = rng.choice(starts)
    at = start + rng.choice([6, 8, 10, 12, 16, 20, 24, 28, 30, 42])
    changed[at : at + 4] = rng.choice(
        [b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f", b"\x01\x00\x00\x00", rng.randbytes(4)]
    )
    return bytes(changed)
