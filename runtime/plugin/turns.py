"""One caller at a time: forward passes, and calls of ``generate``, of one engine."""

from __future__ import annotations

import threading


class Turns:
    """Who may use an engine now.

    A pass takes the turn and gives it back at its end; a ``generate`` keeps other threads out for as long as
    it lasts, since finished rows of two of them could not be told apart.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        # Threads of the calls of generate under way, outermost first.
        self._generating: list[int] = []

    @property
    def mine(self) -> bool:
        """Whether the turn is this thread's."""
        return self._lock.locked() and self._owner == threading.get_ident()

    def take(self) -> None:
        """Take the turn.

        Raises
        ------
        RuntimeError
            When another thread has it, or is inside ``generate``.
        """
        self._refuse_other_generate()
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("expected one forward pass at a time, got another one while a step is running")
        self._owner = threading.get_ident()

    def wait(self) -> None:
        """Take the turn as soon as nobody has it, whoever is inside ``generate``."""
        self._lock.acquire()
        self._owner = threading.get_ident()

    def give_back(self) -> None:
        """Give the turn back; does nothing when nobody has it."""
        if self._lock.locked():
            self._lock.release()

    def begin_generate(self) -> None:
        """This thread enters ``generate``; raises as `take` when another one is inside."""
        self._refuse_other_generate()
        self._generating.append(threading.get_ident())

    def end_generate(self) -> None:
        """This thread leaves ``generate``."""
        self._generating.pop()

    def _refuse_other_generate(self) -> None:
        if self._generating and self._generating[-1] != threading.get_ident():
            raise RuntimeError("expected one generate at a time, got a call while another thread generates")
