"""What a folder's rows belong to: settings, instances and versions, compared before a sweep goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prescope.bench.cases import Case
from prescope.bench.settings import BenchSettings
from prescope.bench.versions import Versions

SWEEP = "sweep.json"
_FORMAT = {"format": "prescope-bench", "version": 1}


def sweep_document(settings: BenchSettings, cases: Iterable[Case], versions: Versions) -> dict[str, Any]:
    """What must stay the same for rows of one folder to be comparable."""
    wanted = asdict(settings)
    return {
        **_FORMAT,
        "settings": {key: list(v) if isinstance(v, tuple) else v for key, v in wanted.items()},
        "instances": {case.name: case.sha256 for case in cases},
        "versions": asdict(versions),
    }


def read_sweep(folder: Path) -> dict[str, Any] | None:
    """What the folder's rows belong to; ``None`` in a fresh folder.

    Raises
    ------
    ValueError
        When the file is damaged or of another version.
    """
    path = folder / SWEEP
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path}: expected JSON, got {error}; name another folder with -o") from error
    if not isinstance(found, dict) or {key: found.get(key) for key in _FORMAT} != _FORMAT:
        raise ValueError(
            f"{path}: expected a sweep of version 1 of prescope-bench; name another folder with -o"
        )
    return found


def write_sweep(folder: Path, document: dict[str, Any]) -> None:
    """Write the file, atomically."""
    temporary = folder / f".{SWEEP}.tmp"
    with open(temporary, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(document, indent=1) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, folder / SWEEP)


def differences(stored: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """What is not as it was, in words."""
    told = []
    for part in ("settings", "versions"):
        old, new = stored.get(part, {}), wanted[part]
        told += [
            f"{name} was {_shown(old.get(name))} and is {_shown(value)}"
            for name, value in new.items()
            if old.get(name) != value
        ]
    old, new = stored.get("instances", {}), wanted["instances"]
    changed = sorted(name for name in old.keys() & new.keys() if old[name] != new[name])
    for what, names in (
        ("changed", changed),
        ("new", sorted(new.keys() - old.keys())),
        ("no longer asked for", sorted(old.keys() - new.keys())),
    ):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            told.append(f"instance {names[0]}{more} {what}")
    return told


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
