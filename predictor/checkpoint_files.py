"""Folders of trained predictors, ``predictor.json`` and ``weights.safetensors``: checked, then believed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from prescope.instances._atomic import atomic_file

FORMAT, VERSION = "prescope-predictor", 1
MAX_JSON_BYTES = 1 << 22
MAX_WEIGHTS_BYTES = 1 << 31

_JSON, _WEIGHTS = "predictor.json", "weights.safetensors"
_OURS = {"format", "version", "kind", "weights_sha256", "sha256"}
_AGAIN = "train again, or fetch the folder again"

_Nanoseconds = Annotated[int, msgspec.Meta(ge=-(10**15), le=10**15)]

Content = TypeVar("Content")
Arrays = dict[str, npt.NDArray[Any]]


class CheckpointError(ValueError):
    """A checkpoint folder that cannot be used: which file, what was expected, what was got, what to do."""


def write_checkpoint(
    folder: str | os.PathLike[str], kind: str, document: dict[str, Any], weights: bytes
) -> None:
    """Write a checkpoint folder; the JSON comes last, so that a folder with one is whole.

    Parameters
    ----------
    folder
        Is made where missing; an older checkpoint in it is replaced.
    kind
        What was trained.
    document
        Everything but the weights, as JSON holds it.
    weights
        A safetensors file.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        **document,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    whole["sha256"] = _digest(whole)
    with atomic_file(place / _WEIGHTS) as stream:
        stream.write(weights)
    with atomic_file(place / _JSON) as stream:
        stream.write(json.dumps(whole, indent=1, allow_nan=False).encode())


def read_checkpoint(
    folder: str | os.PathLike[str], kinds: Collection[str], fields: Collection[str]
) -> tuple[str, dict[str, Any], Arrays]:
    """Read a checkpoint folder: its kind, its document and its arrays, all finite.

    Parameters
    ----------
    kinds
        Kinds that the caller understands.
    fields
        Fields that the document has to have, no more and no fewer.

    Raises
    ------
    CheckpointError
        When a file is missing, damaged, altered, too large, of another kind or of a newer version.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    place = Path(folder)
    document = _document(place / _JSON, kinds, fields)
    weights = _bytes(place / _WEIGHTS, MAX_WEIGHTS_BYTES)
    if hashlib.sha256(weights).hexdigest() != document["weights_sha256"]:
        raise CheckpointError(
            f"{place / _WEIGHTS}: expected the weights that {_JSON} was written with, got others; {_AGAIN}"
        )
    try:
        arrays: Arrays = load(weights)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{place / _WEIGHTS}: expected a safetensors file, got {str(error)[:200]}; {_AGAIN}"
        ) from error
    for name, array in arrays.items():
        if array.dtype not in (np.float16, np.float32, np.int8) or not np.isfinite(array).all():
            raise CheckpointError(
                f"{place / _WEIGHTS}: expected finite float16, float32 or int8, got others in {name[:60]!r}"
            )
    return document["kind"], {name: document[name] for name in fields}, arrays


def exactly(kind: type[Content], value: Any) -> Content:
    """A dataclass of the values that JSON holds, all of them and no others, each of its type.

    Raises
    ------
    ValueError
        Saying which value does not fit.
    """
    try:
        content = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{kind.__name__}: {str(error)[:200]}") from error
    if json.loads(json.dumps(dataclasses.asdict(content))) != value:  # type: ignore[call-overload]
        raise ValueError(f"{kind.__name__}: expected {_names(kind)} and nothing else, got {str(value)[:200]}")
    return content


def cost_pairs(value: Any) -> tuple[tuple[int, int], ...]:
    """Pairs of nanoseconds as JSON holds them; raises ``ValueError`` for anything else."""
    try:
        return msgspec.convert(value, tuple[tuple[_Nanoseconds, _Nanoseconds], ...])
    except msgspec.ValidationError as error:
        raise ValueError(f"cost_ns: {str(error)[:200]}") from error


def _names(kind: type[Any]) -> str:
    return ", ".join(field.name for field in dataclasses.fields(kind))


def _document(path: Path, kinds: Collection[str], fields: Collection[str]) -> dict[str, Any]:
    text = _bytes(path, MAX_JSON_BYTES)
    try:
        document = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: expected JSON, got {str(error)[:200]}; {_AGAIN}") from error
    if not isinstance(document, dict):
        raise CheckpointError(f"{path}: expected an object, got {type(document).__name__}; {_AGAIN}")
    if document.get("format") != FORMAT:
        got = str(document.get("format"))[:60]
        raise CheckpointError(f"{path}: expected format {FORMAT!r}, got {got!r}; name a trained predictor")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        newer = type(version) is int and version > VERSION
        remedy = "it was written by a newer prescope: upgrade" if newer else _AGAIN
        raise CheckpointError(f"{path}: expected version {VERSION}, got {str(version)[:60]}; {remedy}")
    if document.get("kind") not in tuple(kinds):
        expected = " or ".join(map(repr, kinds))
        raise CheckpointError(
            f"{path}: expected a predictor of kind {expected}, got {document.get('kind')!r:.60}"
        )
    wanted = {*_OURS, *fields}
    if set(document) != wanted:
        odd = str(sorted(set(document) ^ wanted))[:200]
        raise CheckpointError(f"{path}: expected the fields {sorted(wanted)}, differing in {odd}; {_AGAIN}")
    if not isinstance(document.get("notes", ""), str):
        raise CheckpointError(f"{path}: expected notes as text, got {str(document['notes'])[:60]}; {_AGAIN}")
    if document["sha256"] != _digest(document):
        got = str(document["sha256"])[:64]
        raise CheckpointError(f"{path}: expected the checksum of the content, got {got}; {_AGAIN}")
    return document


def _bytes(path: Path, limit_bytes: int) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise CheckpointError(f"{path}: expected a regular file, got something else")
        with open(path, "rb") as stream:
            # A read takes memory for all that it asks for, not for what there is.
            data = stream.read(1 + min(limit_bytes, status.st_size))
    except OSError as error:
        raise CheckpointError(
            f"{path}: expected a file of a trained predictor, got {error.strerror or error}; check the path"
        ) from error
    if len(data) > limit_bytes:
        raise CheckpointError(f"{path}: expected at most {limit_bytes} bytes, got more")
    return data


def _digest(document: dict[str, Any]) -> str:
    content = {name: value for name, value in document.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field said twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text}, which is not JSON")
