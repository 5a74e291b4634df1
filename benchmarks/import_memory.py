"""Import large routing logs and measure the memory it takes.

``python -m benchmarks.import_memory`` writes a CSV log and a log of JSON lines of 2 GB each into a temporary
folder, reads each in a process of its own and writes benchmarks/results/import_memory.{csv,md}: peak memory
of that process, its memory before reading, and the size of the trace. ``--megabytes`` sets another size.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from prescope.instances import RoutingTrace, TraceMeta
from prescope.instances.importers import write_csv_log, write_jsonl_log

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
LAYERS, EXPERTS, TOP_K, LENGTH = 24, 32, 4, 500
SAMPLE = 32 * LENGTH
WRITE = {"csv": write_csv_log, "jsonl": write_jsonl_log}

READ = """
import json, sys, time
from prescope.instances.importers import read_csv_log, read_jsonl_log
def peak():
    # Not ru_maxrss, which a process inherits from the one that started it.
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
before, started = peak(), time.perf_counter()
trace = (read_csv_log if sys.argv[1].endswith("csv") else read_jsonl_log)(sys.argv[1])
held = trace.topk_ids.nbytes + trace.topk_weights.nbytes
print(json.dumps({"tokens": trace.tokens, "trace_bytes": held, "before_bytes": before, "peak_bytes": peak(),
                  "seconds": round(time.perf_counter() - started, 1)}))
"""


def main() -> None:
    """Write, read, measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=2000)
    wanted_bytes = parser.parse_args().megabytes * 10**6
    rows: list[dict[str, Any]] = []
    for kind in WRITE:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"log.{kind}"
            # How many bytes a token takes is known after a small log.
            write(path, kind, SAMPLE)
            write(path, kind, SAMPLE * wanted_bytes // path.stat().st_size + 1)
            answer = subprocess.run(
                [sys.executable, "-c", READ, str(path)], check=True, capture_output=True, text=True
            ).stdout
            rows.append({"log": kind, "log_bytes": path.stat().st_size, **json.loads(answer)})
            print(rows[-1], flush=True)
    with open(RESULTS / "import_memory.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (RESULTS / "import_memory.md").write_text(page(rows), encoding="utf-8")


def write(path: Path, kind: str, tokens: int) -> None:
    """Write a log of random routing."""
    rng = np.random.default_rng(0)
    # Steps of an odd width through a power of two never meet an expert twice.
    start, width = (rng.integers(0, EXPERTS, (tokens, LAYERS, 1), dtype=np.int16) for _ in range(2))
    ids = (start + (2 * width + 1) * np.arange(TOP_K, dtype=np.int16)) % EXPERTS
    offsets = np.append(np.arange(0, tokens, LENGTH), tokens)
    phase = (np.arange(tokens) % LENGTH >= LENGTH // 10).astype(np.uint8)
    weights = rng.random((tokens, LAYERS, TOP_K), dtype=np.float32).astype(np.float16)
    meta = TraceMeta(model="random", experts=EXPERTS, top_k=TOP_K)
    WRITE[kind](
        path, RoutingTrace(topk_ids=ids, topk_weights=weights, seq_offsets=offsets, phase=phase, meta=meta)
    )


def page(rows: list[dict[str, Any]]) -> str:
    """The table for people."""
    lines = [
        "# Memory that importing a log takes",
        "",
        f"`python -m benchmarks.import_memory`: {LAYERS} layers, top {TOP_K} of {EXPERTS}; measured on "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}. *Peak* is that of",
        "the whole process, of which *before* are the interpreter and its libraries.",
        "",
        "| log | size | tokens | peak | before | the trace itself | time |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        sizes = [
            f"{row[name] / 1e6:,.0f} MB"
            for name in ("log_bytes", "peak_bytes", "before_bytes", "trace_bytes")
        ]
        lines.append(
            f"| {row['log']} | {sizes[0]} | {row['tokens']:,} | {sizes[1]} | {sizes[2]} | {sizes[3]} | "
            f"{row['seconds']:.0f} s |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
