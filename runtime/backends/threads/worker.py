"""The loop of a worker thread."""

from __future__ import annotations

import threading

from prescope.runtime.backends.threads.board import Worker
from prescope.runtime.backends.threads.crew import Crew


def start_worker(crew: Crew, worker: Worker) -> threading.Thread:
    """Start the thread of a worker; returns once it is set up."""
    import torch

    ready = threading.Event()
    epoch = crew.board.epoch(worker)
    thread = threading.Thread(
        target=_run, args=(crew, worker, epoch, ready), name=f"prescope-{worker}", daemon=True
    )
    # A worker's own setting would otherwise become the default of threads started later.
    threads = torch.get_num_threads()
    thread.start()
    ready.wait()
    torch.set_num_threads(threads)
    return thread


def _run(crew: Crew, worker: Worker, epoch: int, ready: threading.Event) -> None:
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    carry_out = crew.enter(worker.stream)
    ready.set()
    board = crew.board
    while (node := board.take(worker, epoch)) is not None:
        try:
            carry_out(node)
        except BaseException as error:  # it is raised again where the caller waits
            board.fail(node, worker, error, epoch)
        else:
            board.finish(node, worker, epoch)
