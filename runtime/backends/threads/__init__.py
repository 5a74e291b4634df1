"""What backends in real time share: ordered queues, worker threads, and the caller's side of them."""

from __future__ import annotations

from prescope.runtime.backends.threads.backend import ThreadedBackend
from prescope.runtime.backends.threads.board import Board
from prescope.runtime.backends.threads.crew import Crew, Lane

__all__ = ["Board", "Crew", "Lane", "ThreadedBackend"]
