"""The file of a sweep's rows: appended line by line, durable, healed after a crash."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path

from prescope.bench.row import BenchRow, RunKey
from prescope.bench.row_csv import COLUMNS, from_cells, header, to_line

ROWS = "runs.csv"
MAX_BYTES = 256 * 2**20


def read_rows(folder: str | os.PathLike[str]) -> list[BenchRow]:
    """Rows of a sweep's folder; a last line torn by a crash is left out.

    Raises
    ------
    ValueError
        When there is no such file, or a line is damaged; the message names file and line.
    """
    path = Path(folder) / ROWS
    if not path.is_file():
        raise ValueError(
            f"expected the folder of a `prescope bench` run with {ROWS}, got {os.fspath(folder)}"
        )
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path}: expected at most {MAX_BYTES} bytes, got {path.stat().st_size}")
    whole, _ = _split(path.read_bytes())
    try:
        lines = list(csv.reader(whole.decode("utf-8").splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: expected CSV in UTF-8, got {error}") from error
    if not lines:
        return []
    if tuple(lines[0]) != COLUMNS:
        raise ValueError(f"{path}: expected the columns of this version (docs/benchmarking.md), got others")
    rows: dict[RunKey, BenchRow] = {}
    for number, cells in enumerate(lines[1:], start=2):
        try:
            row = from_cells(cells)
            if row.key in rows:
                raise ValueError(f"expected each run once, got {tuple(row.key)} again")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
        rows[row.key] = row
    return list(rows.values())


class RowFile:
    """Appends rows; each is on the disk when `append` returns.

    Parameters
    ----------
    folder
        Of the sweep. A torn last line is cut off first.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ROWS
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        whole, torn = _split(self._path.read_bytes())
        if torn:
            os.ftruncate(self._fd, len(whole))
        if not whole:
            self._write(header())

    def append(self, row: BenchRow) -> None:
        """Add one row."""
        self._write(to_line(row))

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _write(self, text: str) -> None:
        data = text.encode("utf-8")
        while data:
            data = data[os.write(self._fd, data) :]
        os.fsync(self._fd)


def rewrite_rows(folder: Path, rows: Iterable[BenchRow]) -> None:
    """Replace all rows, atomically."""
    temporary = folder / f".{ROWS}.tmp"
    with open(temporary, "w", encoding="utf-8", newline="") as stream:
        stream.write(header())
        stream.writelines(map(to_line, rows))
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, folder / ROWS)


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Split into whole lines and what follows the last line end."""
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:]
