"""Routing traces on disk: ``.npz`` without pickle, checksummed, size-checked before anything is allocated."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.instances._atomic import atomic_file
from prescope.instances.file_error import InstanceFileError
from prescope.instances.limits import MAX_TRACE_BYTES
from prescope.instances.routing_trace import NOT_RECORDED, RoutingTrace, TraceMeta

TRACE_FORMAT = "prescope-routing-trace"
VERSION = 2
"""Version 2 may hold ``token_ids``; a trace without them is still written as version 1."""

_BYTE_SENTINEL = 255
_REQUIRED = ("topk_ids", "seq_offsets", "phase")
_SINCE_2 = ("token_ids",)
_OPTIONAL = ("topk_weights", "padding", "hidden", "expert_bytes", "dense_bytes", *_SINCE_2)
_OTHER_NAMES = {"topk_probs": "topk_weights"}
_DAMAGED = "The file is damaged: fetch it again, or record it again"
_LAYOUT = "docs/instances.md describes the arrays"
_META_FIELDS = {"format", "version", "sha256"} | {field.name for field in dataclasses.fields(TraceMeta)}

# What the standard library raises for archives that are damaged, encrypted or of another kind.
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    UnicodeDecodeError,
)

Arrays = dict[str, npt.NDArray[Any]]


def read_trace(path: str | os.PathLike[str]) -> RoutingTrace:
    """Read a routing trace.

    Files of other recorders are read too: the same arrays, weights also under the name ``topk_probs``, 255
    in an unsigned byte array for "not recorded", and any ``meta`` JSON with ``model``, ``experts`` and
    ``top_k``. Only files that this package wrote carry a checksum.

    Raises
    ------
    InstanceFileError
        When it is missing, truncated, altered, from a newer version, too large or against the layout.
    """
    arrays = _read_arrays(Path(path))
    meta_array = arrays.pop("meta", None)
    if meta_array is None or meta_array.ndim != 0 or meta_array.dtype.kind != "U":
        raise InstanceFileError(path, "meta", "expected one JSON text, got none", _LAYOUT)
    try:
        meta = json.loads(str(meta_array))
    except (ValueError, RecursionError) as error:
        raise InstanceFileError(path, "meta", f"expected JSON, got {error}", _DAMAGED) from error
    if not isinstance(meta, dict):
        raise InstanceFileError(path, "meta", f"expected an object, got {type(meta).__name__}", _LAYOUT)
    if "format" in meta:
        _check_own(path, meta, arrays)
    else:
        meta = _adopt(path, meta)
    known = {_OTHER_NAMES.get(name, name): array for name, array in arrays.items()}
    unknown = sorted(set(known) - {*_REQUIRED, *_OPTIONAL})
    missing = sorted(set(_REQUIRED) - set(known))
    if unknown or missing or len(known) != len(arrays):
        got = f"expected the arrays {', '.join(_REQUIRED)}, got {', '.join(sorted(arrays))}"
        raise InstanceFileError(path, "file", got, _LAYOUT)
    try:
        if "padding" in known and known["padding"].size == 0:
            raise ValueError("expected padding of shape [tokens], got none")
        if known["topk_ids"].dtype == np.uint8:
            if meta["experts"] > _BYTE_SENTINEL:
                raise ValueError(f"expected int16 topk_ids for {meta['experts']} experts, got uint8")
            ids = known["topk_ids"].astype(np.int16)
            ids[ids == _BYTE_SENTINEL] = NOT_RECORDED
            known["topk_ids"] = ids
        return RoutingTrace(meta=TraceMeta(**meta), **known)
    except (ValueError, TypeError) as error:
        raise InstanceFileError(path, "arrays", str(error), _LAYOUT) from error


def write_trace(path: str | os.PathLike[str], trace: RoutingTrace) -> str:
    """Write a routing trace atomically and return its checksum.

    Raises
    ------
    InstanceFileError
        When the name does not end in ``.npz``.
    OSError
        When the folder cannot be written to.
    """
    target = Path(path)
    if target.suffix != ".npz":
        raise InstanceFileError(path, "file", "expected a name ending in .npz", "Rename it")
    arrays: Arrays = {"topk_ids": _compact(trace)}
    for name in ("seq_offsets", "phase", *_OPTIONAL):
        array = getattr(trace, name)
        if array is not None:
            arrays[name] = array
    version = VERSION if any(name in arrays for name in _SINCE_2) else 1
    meta: dict[str, Any] = {"format": TRACE_FORMAT, "version": version, **dataclasses.asdict(trace.meta)}
    meta["sha256"] = _digest(meta, arrays)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, meta=np.array(json.dumps(meta)), **arrays)
    with atomic_file(target) as stream:
        stream.write(buffer.getbuffer())
    return str(meta["sha256"])


def _compact(trace: RoutingTrace) -> npt.NDArray[Any]:
    if trace.meta.experts > _BYTE_SENTINEL:
        return trace.topk_ids
    return np.where(trace.topk_ids == NOT_RECORDED, _BYTE_SENTINEL, trace.topk_ids).astype(np.uint8)


def _digest(meta: dict[str, Any], arrays: Arrays) -> str:
    content = {key: value for key, value in meta.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name} {array.dtype.str} {array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _check_own(path: str | os.PathLike[str], meta: dict[str, Any], arrays: Arrays) -> None:
    """Check format, version, fields and checksum, and leave the fields of `TraceMeta`."""
    version = meta.get("version")
    if meta["format"] != TRACE_FORMAT:
        got = f"expected {TRACE_FORMAT!r}, got {str(meta['format'])[:60]!r}"
        raise InstanceFileError(path, "meta.format", got, "Name a routing trace")
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= VERSION:
        future = isinstance(version, int) and version > VERSION
        remedy = "It was written by a newer prescope: upgrade" if future else _LAYOUT
        got = f"expected 1 to {VERSION}, got {version!r:.60}"
        raise InstanceFileError(path, "meta.version", got, remedy)
    early = [name for name in _SINCE_2 if name in arrays and version < VERSION]
    if early:
        got = f"expected version {VERSION} for {early[0]}, got {version}"
        raise InstanceFileError(path, "meta.version", got, _LAYOUT)
    if set(meta) != _META_FIELDS:
        odd = sorted(set(meta) ^ _META_FIELDS)
        got = f"expected exactly the fields {sorted(_META_FIELDS)}, differing in {odd}"
        raise InstanceFileError(path, "meta", got, _LAYOUT)
    if meta["sha256"] != _digest(meta, arrays):
        got = f"expected the checksum of the content, got {str(meta['sha256'])[:64]!r}"
        raise InstanceFileError(path, "meta.sha256", got, _DAMAGED)
    for name in ("format", "version", "sha256"):
        del meta[name]
    for name, value in meta.items():
        wanted = int if name in ("experts", "top_k") else str
        if not isinstance(value, wanted) or isinstance(value, bool):
            got = f"expected {wanted.__name__}, got {type(value).__name__}"
            raise InstanceFileError(path, f"meta.{name}", got, _LAYOUT)


def _adopt(path: str | os.PathLike[str], meta: dict[str, Any]) -> dict[str, Any]:
    for name, wanted in (("model", str), ("experts", int), ("top_k", int)):
        if not isinstance(meta.get(name), wanted):
            got = f"expected {wanted.__name__}, got {meta.get(name)!r:.60}"
            raise InstanceFileError(path, f"meta.{name}", got, _LAYOUT)
    origin = [f"{name}: {meta[name]}" for name in ("source", "commit", "licence") if name in meta]
    return {
        "model": meta["model"],
        "experts": meta["experts"],
        "top_k": meta["top_k"],
        "source": "; ".join(origin),
        "notes": str(meta.get("note", "")),
    }


def _read_arrays(path: Path) -> Arrays:
    try:
        if not path.is_file():
            problem = "expected a regular file, got none"
            raise InstanceFileError(path, "file", problem, "Check the path")
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            size_bytes = sum(entry.file_size for entry in entries)
            if size_bytes > MAX_TRACE_BYTES or len(entries) > 64:
                problem = (
                    f"expected at most {MAX_TRACE_BYTES} bytes in 64 arrays, "
                    f"got {size_bytes} in {len(entries)}"
                )
                raise InstanceFileError(path, "file", problem, "Split the trace")
            arrays: Arrays = {}
            for entry in entries:
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise zipfile.BadZipFile(f"compression method {entry.compress_type}")
                name = entry.filename.removesuffix(".npy")
                if name in arrays:
                    raise InstanceFileError(path, name[:60], "expected one array, got two", _DAMAGED)
                arrays[name] = _array(path, name, archive.read(entry))
            return arrays
    except _ARCHIVE_ERRORS as error:
        raise InstanceFileError(path, "file", f"expected an npz archive, got {error}", _DAMAGED) from error
    except OSError as error:
        problem = f"expected a readable file, got {error.strerror}"
        raise InstanceFileError(path, "file", problem, "Check the path and the permissions") from error


def _array(path: Path, name: str, data: bytes) -> npt.NDArray[Any]:
    """Parse one ``.npy`` entry; the header's claim is compared with the bytes before it is believed."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise ValueError(f"array format {version}")
        body = len(data) - stream.tell()
        if dtype.hasobject or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != body:
            raise ValueError(f"{shape} of {dtype} in {body} bytes")
        array = np.frombuffer(data, dtype=dtype, offset=stream.tell(), count=math.prod(shape))
        return array.reshape(shape, order="F" if fortran else "C")
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError) as error:
        problem = f"expected an array of plain numbers, got {str(error)[:200]}"
        raise InstanceFileError(path, name[:60], problem, _DAMAGED) from error
