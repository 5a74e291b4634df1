"""Runs on an existing Dask cluster, through joblib's backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prescope.bench.engines import Engine
from prescope.bench.task import RunOutcome, RunTask, run_task
from prescope.bench.versions import this_machine

CONNECT_S = 10


def dask_engine(address: str) -> Engine:
    """Runs on the workers of a Dask scheduler; a worker that dies has its runs done by the others.

    Parameters
    ----------
    address
        Of the scheduler, such as ``tcp://127.0.0.1:8786``.

    Raises
    ------
    ValueError
        When Dask is not installed.
    """
    try:
        import distributed
        import joblib  # noqa: F401
    except ImportError:
        raise ValueError(
            "expected dask and joblib for the engine dask, got none; "
            "install them with: pip install 'prescope[dask]'"
        ) from None

    connect: Any = distributed.Client

    def run(tasks: Iterable[RunTask]) -> Iterator[RunOutcome]:
        try:
            client = connect(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ConnectionError(
                f"expected a Dask scheduler at {address}, got {type(error).__name__}: {error}; "
                "start one with: dask scheduler"
            ) from error
        with client:
            _require_workers(client, address)
            yield from _run(client, tasks)

    return run


def _run(client: Any, tasks: Iterable[RunTask]) -> Iterator[RunOutcome]:
    from distributed import KilledWorker
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="dask", client=client, wait_for_workers_timeout=CONNECT_S):
        try:
            parallel = Parallel(return_as="generator_unordered", batch_size=1)
            yield from parallel(delayed(run_task)(task) for task in tasks)
        except KilledWorker as error:
            raise ConnectionError(
                f"expected the workers of the Dask cluster to survive a run, got several that died: {error}; "
                "rows so far are kept, call again to go on"
            ) from error


def _require_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except TimeoutError:
        raise ConnectionError(
            f"expected workers at the Dask scheduler {address}, got none in {CONNECT_S} s; "
            f"start one with: dask worker {address} --nthreads 1"
        ) from None
    mine = this_machine().prescope
    try:
        found = client.run(_version)
    except Exception as error:
        raise ConnectionError(
            f"expected prescope {mine} on every Dask worker, got {type(error).__name__}: {error}"
        ) from error
    for worker, theirs in found.items():
        if theirs != mine:
            raise ConnectionError(f"expected prescope {mine} on every Dask worker, got {theirs} on {worker}")


def _version() -> str:
    return this_machine().prescope
