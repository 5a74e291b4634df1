"""How far loading has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """State after one tensor was read.

    Parameters
    ----------
    tensor
        Its name in the checkpoint.
    done_bytes, total_bytes
        Dense weights read so far, and in all.
    """

    tensor: str
    done_bytes: int
    total_bytes: int


ProgressObserver: TypeAlias = Callable[[LoadProgress], None]


def unobserved(progress: LoadProgress) -> None:
    """Look at nothing."""
