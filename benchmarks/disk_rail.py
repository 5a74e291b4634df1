"""Bandwidth of expert reads against raw direct reads of the same size and depth, turn by turn in one run.

Raw reads are single `preadv` calls into page-aligned memory at page-aligned places of the same files. The
rail reads experts, chosen at random, into the rows that `DiskStore.place` finds, and for comparison into rows
that lie anywhere; all memory is in huge pages. Turns are short, as a disk that others use too drifts.

    python benchmarks/disk_rail.py CHECKPOINT     # one of benchmarks/disk_model.py, or any other

writes `benchmarks/results/disk_rail.csv` and `disk_rail.md`. Exit code 1 when the rail falls short of 85 %.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import mmap
import os
import platform
import random
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns, process_time_ns
from typing import Any

from csv_lines import write_lines

WANTED = 0.85
DEPTHS = (1, 2, 4, 8)
PAGE = 4096
# A function of a thread's number, called until its bytes are read; returns bytes that were wanted.
Reader = Callable[[int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One way of reading in one round."""

    bytes_per_s: float
    processor_share: float


def main() -> int:
    """Measure, write both files, and say whether the rail is fast enough."""
    options = parser().parse_args()
    import torch

    from prescope.runtime.disk import DiskStore, cached_bytes

    torch.set_num_threads(1)
    with DiskStore.open(options.checkpoint) as store:
        if not store.direct:
            print(f"expected direct reads, got: {'; '.join(store.degraded)}", file=sys.stderr)
            return 2
        before = sum(cached_bytes(file) or 0 for file in store.checkpoint.files)
        lines = []
        for depth in options.depths:
            lines += cell(store, depth, rounds=options.rounds, total=int(options.gigabytes * 1e9))
            print(" | ".join(f"{name} {lines[-1][name]}" for name in FIELDS), file=sys.stderr)
        after = sum(cached_bytes(file) or 0 for file in store.checkpoint.files)
        text = markdown(lines, store, before, after)
    options.output.mkdir(parents=True, exist_ok=True)
    write_lines(options.output / "disk_rail.csv", lines, FIELDS)
    (options.output / "disk_rail.md").write_text(text, encoding="utf-8")
    print(text)
    return 0 if all(line["share"] >= WANTED for line in lines) else 1


FIELDS = (
    "depth", "read_bytes", "raw_gb_s", "rail_gb_s", "share", "share_low", "share_high", "unplaced_gb_s",
    "raw_processor", "rail_processor", "unplaced_processor",
)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """Options; the defaults make the published table."""
    parsed = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsed.add_argument("checkpoint", type=Path)
    parsed.add_argument("--depths", nargs="+", type=int, default=DEPTHS)
    parsed.add_argument("--rounds", type=int, default=25, help="turns per depth; the median counts")
    parsed.add_argument("--gigabytes", type=float, default=0.3, help="read per turn and way, in 10^9 bytes")
    parsed.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return parsed


def cell(store: Any, depth: int, *, rounds: int, total: int) -> list[dict[str, Any]]:
    """All ways at one depth, in turns whose order rotates so that no way always comes first."""
    ways = {
        "raw": raw_reader(store, depth),
        "rail": rail_reader(store, depth, placed=True),
        "unplaced": rail_reader(store, depth, placed=False),
    }
    found: dict[str, list[Measured]] = {way: [] for way in ways}
    for turn in range(rounds + 1):
        for way in itertools.islice(itertools.cycle(ways), turn % 3, turn % 3 + 3):
            measured = measure(ways[way], depth, total)
            if turn:  # the first turn warms up
                found[way].append(measured)
    speed = {way: statistics.median(one.bytes_per_s for one in found[way]) for way in ways}
    shares = sorted(
        rail.bytes_per_s / raw.bytes_per_s for rail, raw in zip(found["rail"], found["raw"], strict=True)
    )
    processor = {way: statistics.median(one.processor_share for one in found[way]) for way in ways}
    return [
        {
            "depth": depth,
            "read_bytes": store.row_bytes(0),
            "raw_gb_s": round(speed["raw"] / 1e9, 3),
            "rail_gb_s": round(speed["rail"] / 1e9, 3),
            "share": round(statistics.median(shares), 3),
            "share_low": round(shares[len(shares) // 4], 3),
            "share_high": round(shares[-1 - len(shares) // 4], 3),
            "unplaced_gb_s": round(speed["unplaced"] / 1e9, 3),
            "raw_processor": round(processor["raw"], 3),
            "rail_processor": round(processor["rail"], 3),
            "unplaced_processor": round(processor["unplaced"], 3),
        }
    ]


def measure(read: Reader, depth: int, total: int) -> Measured:
    """Read ``total`` bytes by ``depth`` threads, each with one read in flight."""
    left, lock, done = total, threading.Lock(), 0
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        nonlocal left, done
        try:
            while True:
                with lock:
                    if left <= 0:
                        return
                    left -= size
                got = read(thread)
                with lock:
                    done += got
        except BaseException as error:
            failures.append(error)

    size = read(0)
    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(depth)]
    began, processor = perf_counter_ns(), process_time_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed, worked = perf_counter_ns() - began, process_time_ns() - processor
    if failures:
        raise failures[0]
    return Measured(bytes_per_s=done * 1e9 / passed, processor_share=worked / passed)


def raw_reader(store: Any, depth: int) -> Reader:
    """Reads of whole pages, as many as an expert has, at random places of the checkpoint's files."""
    size = -(-store.row_bytes(0) // PAGE) * PAGE
    files = [os.open(file, os.O_RDONLY | os.O_DIRECT) for file in store.checkpoint.files]
    ends = [os.fstat(file).st_size - size for file in files]
    buffers = [huge_buffer(size) for _ in range(depth)]
    rngs = [random.Random(100 + thread) for thread in range(depth)]

    def read(thread: int) -> int:
        rng = rngs[thread]
        file = rng.randrange(len(files))
        return os.preadv(files[file], [buffers[thread]], rng.randrange(ends[file] // PAGE) * PAGE)

    return read


def huge_buffer(size: int) -> memoryview:
    """Touched memory at the beginning of a huge page: raw reads get what the rail's slots get."""
    huge = 2 << 20
    area = mmap.mmap(-1, -(-size // huge) * huge + huge, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_HUGEPAGE)
    buffer = memoryview(area)
    first = -ctypes.addressof(ctypes.c_char.from_buffer(buffer)) % huge
    for place in range(first, first + size, PAGE):
        buffer[place] = 1
    return buffer[first : first + size]


def rail_reader(store: Any, depth: int, *, placed: bool) -> Reader:
    """Reads of random experts into one slot per thread."""
    slots = store.new_slots(depth).fill_(1.0)
    choices: list[Iterator[tuple[int, int]]] = [
        endless(store, random.Random(200 + thread)) for thread in range(depth)
    ]

    def read(thread: int) -> int:
        layer, expert = next(choices[thread])
        slot = slots[thread]
        row = store.place(layer, expert, slot) if placed else slot[: store.elements(layer)]
        store.read(layer, expert, row)
        return int(store.row_bytes(layer))

    return read


def endless(store: Any, rng: random.Random) -> Iterator[tuple[int, int]]:
    """Random experts without end."""
    while True:
        yield rng.randrange(store.layers), rng.randrange(store.experts)


def markdown(lines: list[dict[str, Any]], store: Any, before: int, after: int) -> str:
    """The table for people."""
    size = store.row_bytes(0)
    rows = [
        f"| {line['depth']} | {line['raw_gb_s']:.2f} | {line['rail_gb_s']:.2f} | {line['share']:.0%} "
        f"({line['share_low']:.0%} to {line['share_high']:.0%}) | {line['unplaced_gb_s']:.2f} | "
        f"{line['raw_processor']:.0%} | {line['rail_processor']:.0%} | {line['unplaced_processor']:.0%} |"
        for line in lines
    ]
    short = [str(line["depth"]) for line in lines if line["share"] < WANTED]
    return "\n".join(
        [
            "# The disk rail against raw direct reads\n",
            "Made by `python benchmarks/disk_rail.py CHECKPOINT` (do not edit), measured on this machine. "
            "GB/s are 10^9 bytes of experts per second, medians over turns; the share is the median over "
            "turns of rail / raw of the same turn (with the quartiles). *Unplaced* rows lie anywhere in "
            "memory and are copied to from a staging buffer. Processor: of one core.\n",
            f"Experts of {size} bytes in {len(store.checkpoint.files)} files, random order; machine: "
            f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}. Of the files the "
            f"page cache held {before} bytes before and {after} after. At least {WANTED:.0%} at every "
            f"depth: {'yes' if not short else 'NO, not at ' + ', '.join(short)}.\n",
            "| depth | raw GB/s | rail GB/s | share | unplaced GB/s | raw processor | rail processor | "
            "unplaced processor |",
            "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
