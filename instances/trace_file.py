"""Routing traces on disk: ``.npz`` without pickle, checksummed, size-checked before anything is allocated."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.instances._atomic import atomic_file
from prescope.instances._npz import (
    DAMAGED,
    Arrays,
    ArraySource,
    InMemory,
    checked_blocks,
    read_npz,
    write_npz,
)
from prescope.instances.file_error import InstanceFileError
from prescope.instances.routing_trace import NOT_RECORDED, RoutingTrace, TraceMeta

TRACE_FORMAT = "prescope-routing-trace"
VERSION = 2
"""Version 2 may hold ``token_ids``; a trace without them is still written as version 1."""

_BYTE_SENTINEL = 255
_MAX_META_BYTES = 1 << 22
_REQUIRED = ("topk_ids", "seq_offsets", "phase")
_SINCE_2 = ("token_ids",)
_OPTIONAL = ("topk_weights", "padding", "hidden", "expert_bytes", "dense_bytes", *_SINCE_2)
_OTHER_NAMES = {"topk_probs": "topk_weights"}
_LAYOUT = "docs/instances.md describes the arrays"
_META_FIELDS = {"format", "version", "sha256"} | {field.name for field in dataclasses.fields(TraceMeta)}


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
    arrays = read_npz(Path(path))
    meta_array = arrays.pop("meta", None)
    if meta_array is None or meta_array.ndim != 0 or meta_array.dtype.kind != "U":
        raise InstanceFileError(path, "meta", "expected one JSON text, got none", _LAYOUT)
    if meta_array.nbytes > _MAX_META_BYTES:
        got = f"expected a JSON text of at most {_MAX_META_BYTES} bytes, got {meta_array.nbytes}"
        raise InstanceFileError(path, "meta", got, _LAYOUT)
    try:
        meta = json.loads(str(meta_array), object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InstanceFileError(path, "meta", f"expected JSON, got {error}", DAMAGED) from error
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
        got = f"expected the arrays {', '.join(_REQUIRED)}, got {', '.join(sorted(arrays))[:500]}"
        raise InstanceFileError(path, "file", got, _LAYOUT)
    try:
        if "padding" in known and known["padding"].size == 0:
            raise ValueError("expected padding of shape [tokens], got none")
        if known["topk_ids"].dtype == np.uint8:
            if meta["experts"] > _BYTE_SENTINEL:
                raise ValueError(f"expected int16 topk_ids for {meta['experts']} experts, got uint8")
            ids = known.pop("topk_ids").astype(np.int16)
            ids[ids == _BYTE_SENTINEL] = NOT_RECORDED
            ids.flags.writeable = False
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
    arrays: Arrays = {"topk_ids": compact_ids(trace.topk_ids, trace.meta.experts)}
    for name in ("seq_offsets", "phase", *_OPTIONAL):
        array = getattr(trace, name)
        if array is not None:
            arrays[name] = array
    return write_arrays(path, trace.meta, {name: InMemory(array) for name, array in arrays.items()})


def write_arrays(path: str | os.PathLike[str], meta: TraceMeta, arrays: Mapping[str, ArraySource]) -> str:
    """Write a trace whose arrays need not be in memory; see `write_trace`.

    Parameters
    ----------
    meta
        What it was recorded from.
    arrays
        By the names of `RoutingTrace`, ``topk_ids`` as `compact_ids` makes them. That they make a valid trace
        is the caller's to know.
    """
    target = Path(path)
    if target.suffix != ".npz":
        raise InstanceFileError(path, "file", "expected a name ending in .npz", "Rename it")
    version = VERSION if any(name in arrays for name in _SINCE_2) else 1
    document: dict[str, Any] = {"format": TRACE_FORMAT, "version": version, **dataclasses.asdict(meta)}
    document["sha256"] = _digest(document, arrays)
    text = np.array(json.dumps(document))
    if text.nbytes > _MAX_META_BYTES:
        got = f"expected at most {_MAX_META_BYTES} bytes of meta, got {text.nbytes}"
        raise InstanceFileError(path, "meta", got, "Shorten the source or the notes")
    with atomic_file(target) as stream:
        write_npz(stream, [("meta", InMemory(text)), *arrays.items()])
    return str(document["sha256"])


def compact_ids(ids: npt.NDArray[np.int16], experts: int) -> npt.NDArray[Any]:
    """Expert ids as files hold them: bytes with 255 for "not recorded" where that is enough, else int16."""
    if experts > _BYTE_SENTINEL:
        return ids
    return np.where(ids == NOT_RECORDED, np.int16(_BYTE_SENTINEL), ids).astype(np.uint8)


def _digest(meta: dict[str, Any], arrays: Mapping[str, ArraySource]) -> str:
    content = {key: value for key, value in meta.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for block in checked_blocks(arrays):
        digest.update(block)
    return digest.hexdigest()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field said twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(text)


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
        got = f"expected exactly the fields {sorted(_META_FIELDS)}, differing in {str(odd)[:200]}"
        raise InstanceFileError(path, "meta", got, _LAYOUT)
    if meta["sha256"] != _digest(meta, {name: InMemory(array) for name, array in arrays.items()}):
        got = f"expected the checksum of the content, got {str(meta['sha256'])[:64]!r}"
        raise InstanceFileError(path, "meta.sha256", got, DAMAGED)
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
