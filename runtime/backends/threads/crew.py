"""Who carries operations out, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from prescope.runtime.backends._node import Node
from prescope.runtime.backends.threads.board import Board
from prescope.runtime.program import Stream
from prescope.runtime.store import ExpertStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """How a stream's operations are taken up.

    Parameters
    ----------
    workers
        Threads of the stream; with 0 the caller carries its operations out while it waits.
    overtaking
        Whether an operation that is ready may start before an earlier one that still waits. Operations
        then need all their waits named, which an ordered stream leaves out.
    """

    workers: int = 1
    overtaking: bool = False


class Crew(Protocol):
    """Does the real work. Deliberately not the backend, so that a forgotten one can be collected."""

    @property
    def board(self) -> Board:
        """Where operations are taken from."""
        ...

    @property
    def store(self) -> ExpertStore:
        """Where the weights come from."""
        ...

    @property
    def dilation(self) -> float:
        """Real time per modelled time."""
        ...

    def held_ns(self, node: Node) -> int:
        """Real time that an operation takes at least."""
        ...

    def enter(self, stream: Stream) -> Callable[[Node], None]:
        """Set up the calling thread for a stream; returns what carries an operation out on it.

        That calls `Board.begin` when the real work starts, and raises what goes wrong.
        """
        ...
