"""Where runs are carried out: in this process, in several, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prescope.bench.row import RunKey
from prescope.bench.task import DIED, RunOutcome, RunTask, failed_row, run_task

Engine = Callable[[Iterable[RunTask]], Iterator[RunOutcome]]


def local_engine(jobs: int = 1) -> Engine:
    """Runs in this process, or in ``jobs`` others with one thread each.

    A run whose process dies is tried once more in a process of its own, then recorded as broken.

    Raises
    ------
    ValueError
        When ``jobs`` is below 1, or above 1 without joblib.
    """
    if jobs < 1:
        raise ValueError(f"expected jobs >= 1, got {jobs}")
    if jobs == 1:
        return lambda tasks: map(run_task, tasks)
    _require_joblib()
    return lambda tasks: _in_processes(tasks, jobs)


def _in_processes(tasks: Iterable[RunTask], jobs: int) -> Iterator[RunOutcome]:
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    waiting = iter(tasks)
    while True:
        sent: dict[RunKey, RunTask] = {}
        try:
            with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
                # No more under way than can run: all of them are suspects when one takes its process down.
                parallel = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
                for outcome in parallel(delayed(run_task)(task) for task in _noting(waiting, sent)):
                    del sent[outcome.row.key]
                    yield outcome
            return
        except TerminatedWorkerError:
            # Which of the runs under way was the one is not known.
            for task in list(sent.values()):
                yield _alone(task)


def _noting(tasks: Iterator[RunTask], sent: dict[RunKey, RunTask]) -> Iterator[RunTask]:
    for task in tasks:
        sent[task.key] = task
        yield task


def _alone(task: RunTask) -> RunOutcome:
    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    with ProcessPoolExecutor(max_workers=1) as pool:
        try:
            outcome: RunOutcome = pool.submit(run_task, task).result()
        except TerminatedWorkerError:
            return RunOutcome(row=failed_row(task, DIED))
    return outcome


def _require_joblib() -> None:
    try:
        import joblib  # noqa: F401
    except ImportError:
        raise ValueError(
            "expected joblib for several jobs, got none; install it with: pip install 'prescope[bench]'"
        ) from None
