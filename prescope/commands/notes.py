"""Warnings of the library, kept until the answer is out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_notes() -> Iterator[list[str]]:
    """Collect what ``prescope`` warns of instead of letting it fall into the middle of streamed text."""
    notes: list[str] = []
    handler = _Keeper(notes)
    logger = logging.getLogger("prescope")
    propagated = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield notes
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated


class _Keeper(logging.Handler):
    def __init__(self, notes: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self._notes:
            self._notes.append(text)
