"""The same rows from every engine; nothing lost when a worker dies."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import cases
from joblib.externals.loky import get_reusable_executor

from prescope.bench import BenchRow, BenchSettings, RowStatus, local_engine, read_rows, run_bench
from prescope.bench.dask_engine import dask_engine
from prescope.bench.task import DIED

CASES = cases(4)
SETTINGS = BenchSettings(methods=("presched", "dp-fast"), seeds=(0, 1))
DASK = shutil.which("dask", path=str(Path(sys.executable).parent)) or shutil.which("dask")

FOREIGN = '''
import os, time
from dataclasses import replace
from prescope.formulation import makespan_ns
from prescope.solver import get_method


class Deadly:
    """Takes its process down on the second batch."""

    name = "deadly"

    def plan(self, instance, **options):
        if instance.name == "batch-2":
            os._exit(7)
        return get_method("presched").plan(instance, **options)


class Slow:
    name = "slow"

    def plan(self, instance, **options):
        time.sleep(0.1)
        return get_method("presched").plan(instance, **options)


class Boastful:
    """Says that its plan is proved optimal."""

    name = "boastful"

    def plan(self, instance, **options):
        draft = get_method("presched").plan(instance, **options)
        return replace(draft, proved_bound_ns=makespan_ns(instance, draft.plan))
'''


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with methods of another package, on every path."""
    folder = tmp_path / "foreign"
    info = folder / "foreign-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "foreign_methods.py").write_text(FOREIGN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[prescope.solvers]\ndeadly = foreign_methods:Deadly\nslow = foreign_methods:Slow\n"
        "boastful = foreign_methods:Boastful\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    # Worker processes of an earlier test would not know of the folder.
    get_reusable_executor().shutdown(wait=True)
    return folder


def comparable(rows: tuple[BenchRow, ...] | list[BenchRow]) -> list[BenchRow]:
    """Rows without their times, in a fixed order."""
    plain = [replace(row, plan_time_ns=None, bound_time_ns=None, plan_sha256="") for row in rows]
    return sorted(plain, key=lambda row: row.key)


def test_two_processes_give_the_same_rows(tmp_path: Path) -> None:
    here = run_bench(CASES, SETTINGS, tmp_path / "here")
    there = run_bench(CASES, SETTINGS, tmp_path / "there", engine=local_engine(2))
    assert there.ran == here.ran == 16
    assert comparable(here.rows) == comparable(there.rows) == comparable(read_rows(tmp_path / "there"))


def test_a_run_that_kills_its_process_is_a_row_and_the_others_are_there(
    tmp_path: Path, foreign: Path
) -> None:
    settings = BenchSettings(methods=("deadly", "presched"))
    rows = run_bench(CASES, settings, tmp_path / "out", engine=local_engine(2)).rows
    dead = [row for row in rows if row.failed]
    assert [(row.instance, row.method, row.error) for row in dead] == [("batch-2", "deadly", DIED)]
    assert len(read_rows(tmp_path / "out")) == 8
    assert all(row.status in (RowStatus.OPTIMAL, RowStatus.FEASIBLE) for row in rows if not row.failed)


def test_a_bound_of_another_package_is_not_taken_for_proved(tmp_path: Path, foreign: Path) -> None:
    settings = BenchSettings(methods=("boastful", "presched"))
    rows = run_bench(CASES[:2], settings, tmp_path / "out").rows
    for mine, honest in zip(rows[::2], rows[1::2], strict=True):
        assert (mine.method, mine.status) == ("boastful", RowStatus.FEASIBLE)
        assert mine.own_bound_ns == mine.lower_bound_ns == honest.lower_bound_ns
        assert mine.gap_to_bound == honest.gap_to_bound


def test_no_jobs_are_refused() -> None:
    with pytest.raises(ValueError, match="expected jobs >= 1, got 0"):
        local_engine(0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'prescope\[dask\]'"):
        dask_engine("tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(ValueError, match=r"pip install 'prescope\[bench\]'"):
        local_engine(2)


def test_no_scheduler_and_no_worker_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: "Cluster"
) -> None:
    monkeypatch.setattr("prescope.bench.dask_engine.CONNECT_S", 1)
    with pytest.raises(ConnectionError, match="expected a Dask scheduler at tcp://127.0.0.1:9"):
        run_bench(CASES, SETTINGS, tmp_path / "out", engine=dask_engine("tcp://127.0.0.1:9"))
    with pytest.raises(ConnectionError, match="expected workers"):
        run_bench(CASES, SETTINGS, tmp_path / "out", engine=dask_engine(cluster.address))
    assert read_rows(tmp_path / "out") == []


class Cluster:
    """A Dask scheduler on this machine, and workers to kill."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._processes = folder, []
        file = folder / "scheduler.json"
        self._start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        self.address: str = self._wait(
            lambda: json.loads(file.read_text())["address"] if file.exists() else None
        )

    def start_worker(self) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self._folder))
        return self._start("worker", self.address, *options)

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait(10)

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with open(self._folder / f"{len(self._processes)}.log", "wb") as log:
            process = subprocess.Popen([DASK, *arguments], stdout=log, stderr=log, cwd=self._folder)
        self._processes.append(process)
        return process

    def _wait(self, found: object) -> str:
        for _ in range(600):
            try:
                if (value := found()) is not None:  # type: ignore[operator]
                    return value
            except ValueError:
                pass  # half-written
            time.sleep(0.05)
        raise TimeoutError("no scheduler")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if DASK is None:
        pytest.skip("dask is not installed")
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(folder)
    yield made
    made.stop()


def test_a_killed_dask_worker_loses_nothing(tmp_path: Path, foreign: Path, cluster: Cluster) -> None:
    settings = BenchSettings(methods=("slow", "presched"), seeds=(0, 1, 2))
    here = run_bench(CASES, settings, tmp_path / "here")
    first, second = cluster.start_worker(), cluster.start_worker()
    killed = []

    def kill_one(row: BenchRow | None, done: int, total: int) -> None:
        if done == 4 and not killed:
            first.kill()
            killed.append(first.wait(10))

    out = tmp_path / "out"
    there = run_bench(CASES, settings, out, engine=dask_engine(cluster.address), progress=kill_one)
    assert killed and second.poll() is None
    assert there.ran == len(read_rows(out)) == 24
    assert comparable(read_rows(out)) == comparable(here.rows) == comparable(there.rows)
