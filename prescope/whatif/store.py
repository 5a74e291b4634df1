"""Outcomes kept in a folder as they come, so that a run that is stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from prescope.folder_lock import folder_lock
from prescope.instances import RoutingTrace
from prescope.whatif.outcome import Outcome, outcome_from, outcome_row
from prescope.whatif.point import Machine, Point
from prescope.whatif.settings import WhatIfSettings

PART = "whatif.part.jsonl"


class Store:
    """Outcomes of one set of settings in one folder.

    Parameters
    ----------
    path
        The file, a line per outcome behind one that says what they are of.
    digest
        What they are of.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self._path, self._digest = path, digest
        self._begun = False
        self.known = _read(path, digest)

    def add(self, one: Outcome) -> None:
        """Keep an outcome."""
        if not self._begun:
            self._begin()
        with open(self._path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(outcome_row(one)) + "\n")

    def _begin(self) -> None:
        """Write what is known: a killed run's last line would join the next one, other settings' must go."""
        lines = [{"digest": self._digest}, *map(outcome_row, self.known)]
        part = self._path.with_suffix(".tmp")
        part.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        os.replace(part, self._path)
        self._begun = True

    def remove(self) -> None:
        """All is written elsewhere."""
        self._path.unlink(missing_ok=True)


@contextmanager
def open_store(
    folder: Path, trace: RoutingTrace, machine: Machine, settings: WhatIfSettings
) -> Iterator[Store]:
    """The store of a folder, which is made and held for the time.

    Raises
    ------
    ValueError
        When the folder cannot be made, or another process holds it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"expected a folder that can be written at {folder}, got {error.strerror!r}; name another with -o"
        ) from error
    with folder_lock(folder, doing="running a what-if", leave=False):
        yield Store(folder / PART, digest_of(trace, machine, settings))


def digest_of(trace: RoutingTrace, machine: Machine, settings: WhatIfSettings) -> str:
    """What an outcome depends on apart from its point."""
    found = hashlib.sha256()
    for array in (trace.topk_ids, trace.seq_offsets, trace.phase, trace.padding):
        found.update(str(array.shape).encode())
        found.update(array.tobytes())
    # Which points are asked for does not matter to any of them.
    alone = replace(settings, values={}, grid=False)
    found.update(repr((machine, replace(alone, now=_nowhere(alone)))).encode())
    return found.hexdigest()


def _nowhere(settings: WhatIfSettings) -> Point:
    return replace(settings.now, memory_bytes=1, link_bytes_per_s=1, speed=1.0, batch=1, recall=None)


def _read(path: Path, digest: str) -> tuple[Outcome, ...]:
    if not path.exists():
        return ()
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    found = []
    try:
        if json.loads(lines[0]) != {"digest": digest}:
            return ()
        for line in lines[1:]:
            found.append(outcome_from(json.loads(line)))
    except (ValueError, TypeError, IndexError):
        # The last line of a run that was killed.
        pass
    return tuple(found)
