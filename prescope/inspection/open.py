"""One door for every kind of file that can be looked at."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

from prescope.inspection.view import View

_KINDS = (
    "an instance, a plan, a program, a trace, a recording, a horizon or its plan, recorded routing (.npz), "
    "a benchmark's folder or JSON, or the JSON of `prescope evaluate`"
)
_MAX_BYTES = 512 * 2**20


def open_view(path: str | os.PathLike[str], *, instance: str | os.PathLike[str] | None = None) -> View:
    """Open a file of any kind.

    Parameters
    ----------
    path
        An instance, a plan, a program, a trace, a recording, a horizon or its plan, recorded routing, the
        folder or JSON answer of ``prescope bench``, the JSON answer of ``prescope evaluate``, or the name of
        an instance or a horizon in the library.
    instance
        The instance or the horizon that a plan is for: a file, or a name in the library; the library's of the
        plan's name when ``None``.

    Raises
    ------
    ValueError
        When there is no such file or it is of no kind known; the message names it and the remedy.
    """
    file = Path(path)
    named = None if instance is None else os.fspath(instance)
    if file.is_dir() or file.suffix == ".csv":
        from prescope.inspection.kinds.bench import bench_view

        return bench_view(file)
    if not file.is_file():
        return _from_library(os.fspath(path))
    if file.suffix == ".npz":
        from prescope.inspection.kinds.routing import routing_view

        return routing_view(file)
    return _open_json(file, named)


def _from_library(name: str) -> View:
    from prescope.inspection.kinds.horizon import horizon_file_view
    from prescope.inspection.kinds.instance import file_view
    from prescope.instances import list_library, load_library_horizon, load_library_instance

    entry = next((entry for entry in list_library() if entry.name == name), None)
    if entry is None:
        raise ValueError(
            f"expected a file, got none at {name}, and nothing of that name in the library; check the path"
        )
    if entry.steps is not None:
        return horizon_file_view(name, load_library_horizon(name))
    return file_view(name, load_library_instance(name))


def _open_json(file: Path, instance: str | None) -> View:
    document = _document(file)
    found = document.get("format")
    if found == "prescope-instance":
        from prescope.inspection.kinds.instance import instance_view

        return instance_view(file)
    if found == "prescope-plan":
        from prescope.inspection.kinds.plan import plan_view

        return plan_view(file, instance)
    if found == "prescope-recording":
        from prescope.inspection.kinds.recording import recording_view

        return recording_view(file)
    if found == "prescope-horizon":
        from prescope.inspection.kinds.horizon import horizon_view

        return horizon_view(file)
    if found == "prescope-horizon-plan":
        from prescope.inspection.kinds.horizon import horizon_plan_view

        return horizon_plan_view(file, instance)
    if isinstance(found, str) and found.startswith("prescope-program/"):
        from prescope.inspection.kinds.program import program_view

        return program_view(file)
    if "traceEvents" in document or "otherData" in document:
        from prescope.inspection.kinds.trace import trace_view

        return trace_view(file)
    return _open_answer(file, document)


def _open_answer(file: Path, document: dict[str, Any]) -> View:
    try:
        if "summary" in document and "origins" in document:
            from prescope.inspection.kinds.bench import bench_document_view

            return bench_document_view(file, document)
        if "predictors" in document and "judged_sequences" in document:
            from prescope.inspection.kinds.prediction import prediction_view

            return prediction_view(file, document)
    except ValueError as error:
        raise ValueError(f"{file}: {error}; write it again") from error
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"{file}: expected a whole answer of --json, got one without {error}; write it again"
        ) from error
    found = document.get("format")
    described = f"the format {found!r}" if isinstance(found, str) else "JSON of another kind"
    raise ValueError(f"{file}: expected {_KINDS}, got {described}; name a file that prescope wrote")


def _document(file: Path) -> dict[str, Any]:
    """What a JSON file holds; its own reader judges it afterwards."""
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise ValueError(f"at most {_MAX_BYTES} bytes were expected")
        data = file.read_bytes()
        if file.suffix == ".gz":
            data = _unpacked(data)
        document = json.loads(data)
    except (ValueError, OSError, EOFError, RecursionError) as error:
        raise ValueError(
            f"{file}: expected a file that prescope wrote in JSON, got {error}; write it again"
        ) from error
    if not isinstance(document, dict):
        raise ValueError(f"{file}: expected {_KINDS}, got other JSON; name a file that prescope wrote")
    return document


def _unpacked(data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(data, _MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"no gzip data ({error})") from error
    if not stream.eof:
        raise ValueError("a truncated file" if len(text) < _MAX_BYTES else "a file that is too large")
    return text
