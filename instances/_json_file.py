"""JSON documents on disk: bounded reading, versions, checksums, atomic writing."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from prescope.instances._atomic import atomic_file
from prescope.instances._cost_schema import COSTS_FORMAT, CostDocument
from prescope.instances._horizon_schema import (
    HORIZON_FORMAT,
    HORIZON_PLAN_FORMAT,
    HorizonDocument,
    HorizonPlanDocument,
)
from prescope.instances._recording_schema import RECORDING_FORMAT, RecordingDocument
from prescope.instances._schema import (
    INSTANCE_FORMAT,
    LIBRARY_FORMAT,
    LIBRARY_VERSION,
    PLAN_FORMAT,
    VERSION,
    InstanceDocument,
    LibraryDocument,
    PlanDocument,
)
from prescope.instances.file_error import InstanceFileError
from prescope.instances.limits import MAX_FILE_BYTES, MAX_TEXT_BYTES, MAX_VALUES

Document = TypeVar(
    "Document",
    InstanceDocument,
    PlanDocument,
    LibraryDocument,
    CostDocument,
    HorizonDocument,
    HorizonPlanDocument,
    RecordingDocument,
)
Content = TypeVar("Content")

_FORMATS: dict[type[Any], str] = {
    InstanceDocument: INSTANCE_FORMAT,
    PlanDocument: PLAN_FORMAT,
    LibraryDocument: LIBRARY_FORMAT,
    CostDocument: COSTS_FORMAT,
    HorizonDocument: HORIZON_FORMAT,
    HorizonPlanDocument: HORIZON_PLAN_FORMAT,
    RecordingDocument: RECORDING_FORMAT,
}
_VERSIONS: dict[str, int] = {LIBRARY_FORMAT: LIBRARY_VERSION}
_OLDER = "It was written by an older prescope: write it again with this one"
_READ_WITH = {
    INSTANCE_FORMAT: "read_instance",
    PLAN_FORMAT: "read_plan",
    LIBRARY_FORMAT: "list_library",
    COSTS_FORMAT: "read_costs",
    HORIZON_FORMAT: "read_horizon",
    HORIZON_PLAN_FORMAT: "read_horizon_plan",
    RECORDING_FORMAT: "read_recording",
}
_AT_FIELD = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<field>.*)`)?$", re.DOTALL)
# A refused value is quoted, and it may be as long as the file.
_MAX_PROBLEM = 500
_DAMAGED = "The file is damaged: fetch it again, or rebuild it with the command that made it"
_ALTERED = "The content was altered after it was written: fetch it again, or write it anew"
_BY_HAND = (
    "Correct the field (docs/instances.md and docs/profile.md describe the layouts), "
    "or write the file with prescope.instances"
)


class _Header(msgspec.Struct):
    """What tells a reader whether it may read on."""

    format: Any = None
    version: Any = None


def digest(document: msgspec.Struct) -> str:
    """SHA-256 of the compact JSON of a document whose ``sha256`` is the empty text."""
    return hashlib.sha256(_encode(msgspec.structs.replace(document, sha256=""))).hexdigest()


def file_format(path: str | os.PathLike[str]) -> str:
    """What kind of file a ``.json`` or ``.json.gz`` file says it is, such as ``"prescope-horizon"``.

    Nothing else of it is looked at.

    Raises
    ------
    InstanceFileError
        When it cannot be read, is too large, is no JSON, or is none of prescope's kinds.
    """
    text = _text(Path(path))
    if len(text) > MAX_TEXT_BYTES:
        _refuse_size(path, len(text))
    found = _decode(path, text, _Header, _DAMAGED).format
    if not isinstance(found, str) or found not in _READ_WITH:
        got = repr(found[:40]) if isinstance(found, str) else "no such text"
        problem = f"expected one of {', '.join(_READ_WITH)}, got {got}"
        raise InstanceFileError(path, "format", problem, "Name a file that prescope wrote")
    return found


def read_json(
    path: str | os.PathLike[str],
    kind: type[Document],
    understand: Callable[[Document], Content],
    express: Callable[[Content], Document],
) -> Content:
    """Read a document and turn it into content.

    The checksum is taken over what was understood, expressed as a document again, so no file whose meaning
    differs from its checksum is accepted.
    """
    return _understood(path, _text(Path(path)), kind, understand, express)


def write_json(
    path: str | os.PathLike[str],
    kind: type[Document],
    content: Content,
    understand: Callable[[Document], Content],
    express: Callable[[Content], Document],
) -> str:
    """Write content to ``.json`` or ``.json.gz`` atomically and return the checksum.

    What could not be read again is refused before anything is written.
    """
    target = Path(path)
    _is_compressed(target)
    try:
        document = express(content)
        text = _encode(document) + b"\n"
    except (UnicodeEncodeError, OverflowError) as error:
        raise InstanceFileError(
            path, "file", f"expected content that JSON can hold, got {error}", "Change the value"
        ) from error
    _understood(path, text, kind, understand, express)
    data = _compress(text) if _is_compressed(target) else text
    if len(data) > MAX_FILE_BYTES:
        _refuse_size(path, len(data))
    with atomic_file(target) as stream:
        stream.write(data)
    return document.sha256


def _understood(
    path: str | os.PathLike[str],
    text: bytes,
    kind: type[Document],
    understand: Callable[[Document], Content],
    express: Callable[[Content], Document],
) -> Content:
    if len(text) > MAX_TEXT_BYTES:
        _refuse_size(path, len(text))
    values = text.count(b",")
    if values > MAX_VALUES:
        raise InstanceFileError(
            path, "file", f"expected at most {MAX_VALUES} values, got {values}", "Store a smaller problem"
        )
    _check_header(path, text, kind)
    document = _decode(path, text, kind, _BY_HAND)
    try:
        content = understand(document)
    except (ValueError, OverflowError) as error:
        field = getattr(error, "field", kind.__struct_fields__[3])
        raise InstanceFileError(path, field, str(error), _BY_HAND) from error
    expected = express(content).sha256
    if document.sha256 != expected:
        problem = f"expected the checksum of the content, {expected}, got {document.sha256}"
        raise InstanceFileError(path, "sha256", problem, _ALTERED)
    return content


def _check_header(path: str | os.PathLike[str], text: bytes, kind: type[Document]) -> None:
    wanted = _FORMATS[kind]
    header = _decode(path, text, _Header, _DAMAGED)
    if header.format != wanted:
        got = repr(header.format[:40]) if isinstance(header.format, str) else "no such text"
        other = _READ_WITH.get(header.format) if isinstance(header.format, str) else None
        remedy = f"Read it with prescope.instances.{other}" if other else "Name a file that prescope wrote"
        raise InstanceFileError(path, "format", f"expected {wanted!r}, got {got}", remedy)
    version, current = header.version, _VERSIONS.get(wanted, VERSION)
    if isinstance(version, bool) or not isinstance(version, int):
        got = f"a {type(version).__name__}"
        raise InstanceFileError(path, "version", f"expected {current}, got {got}", _BY_HAND)
    if version != current:
        got = str(version) if abs(version) < 10**9 else "a huge number"
        remedy = "It was written by a newer prescope: upgrade" if version > current else _BY_HAND
        if 0 < version < current:
            remedy = _OLDER
        raise InstanceFileError(path, "version", f"expected {current}, got {got}", remedy)


def _decode(path: str | os.PathLike[str], text: bytes, kind: type[Any], remedy: str) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        match = _AT_FIELD.match(str(error))
        field = (match["field"] if match else None) or "file"
        problem = match["problem"] if match else str(error)
        if len(problem) > _MAX_PROBLEM:
            problem = f"{problem[:_MAX_PROBLEM]}..."
        raise InstanceFileError(
            path, field.removeprefix("$").lstrip(".") or "file", problem, remedy
        ) from error
    except RecursionError as error:
        raise InstanceFileError(
            path, "file", "expected a few levels of nesting, got too many", remedy
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InstanceFileError(path, "file", f"expected JSON, got {error}", _DAMAGED) from error


def _encode(document: msgspec.Struct) -> bytes:
    return msgspec.json.encode(document)


def _is_compressed(path: Path) -> bool:
    if path.name.endswith(".json.gz"):
        return True
    if path.name.endswith(".json"):
        return False
    raise InstanceFileError(path, "file", "expected a name ending in .json or .json.gz", "Rename it")


def _compress(text: bytes) -> bytes:
    buffer = io.BytesIO()
    # Neither time nor name in the header: the same content gives the same bytes.
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as stream:
        stream.write(text)
    return buffer.getvalue()


def _text(path: Path) -> bytes:
    compressed = _is_compressed(path)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise InstanceFileError(path, "file", "expected a regular file", "Name a file")
        with open(path, "rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        problem = f"expected a readable file, got {error.strerror}"
        raise InstanceFileError(path, "file", problem, "Check the path and the permissions") from error
    if len(data) > MAX_FILE_BYTES:
        _refuse_size(path, os.stat(path).st_size)
    return _decompressed(path, data) if compressed else data


def _decompressed(path: Path, data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(data, MAX_TEXT_BYTES + 1)
    except zlib.error as error:
        raise InstanceFileError(path, "file", f"expected gzip data, got {error}", _DAMAGED) from error
    if len(text) > MAX_TEXT_BYTES:
        _refuse_size(path, len(text))
    if not stream.eof:
        raise InstanceFileError(path, "file", "expected complete gzip data, got a truncated file", _DAMAGED)
    if stream.unused_data:
        problem = f"expected nothing behind the gzip data, got {len(stream.unused_data)} bytes"
        raise InstanceFileError(path, "file", problem, _DAMAGED)
    return text


def _refuse_size(path: str | os.PathLike[str], size_bytes: int) -> NoReturn:
    problem = (
        f"expected at most {MAX_FILE_BYTES} bytes on disk and {MAX_TEXT_BYTES} decompressed, "
        f"got at least {size_bytes}"
    )
    raise InstanceFileError(path, "file", problem, "Store a smaller problem")
