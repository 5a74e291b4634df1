"""Experts on disk under a memory budget, measured: mapped files, LRU, static popularity, and ours.

    python -m benchmarks.disk_tier                 # about ten minutes and 9 GB of disk
    python -m benchmarks.disk_tier --quick         # a small model, few steps

Everything is made here: a cut Qwen3-MoE of random weights with routers sharpened to the routing of a real
model (`benchmarks.disk_sharpen`), the machine's costs (`prescope profile`), and the runs. All systems read
the same streams of real tokens under the same budget, one cell after the other with the systems in turn.
Results grow in ``benchmarks/results/disk_tier.csv``; a run that was stopped goes on where it was, unless
``--fresh`` is given. ``disk_tier.md`` has the tables.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from benchmarks.csv_lines import read_lines, write_lines
from benchmarks.disk_bounds import compute_bound_ns, fewest_reads
from benchmarks.disk_cells import MAPPED, OURS, SYSTEMS, CellResult, System, engine_cell
from benchmarks.disk_mapped import MappedModel, allowance_bytes
from benchmarks.disk_prepare import VALIDATION, costs_of, groups_of, prepare_cut, streams
from benchmarks.disk_routing import Array
from benchmarks.disk_speed import rail_gb_s
from benchmarks.disk_table import deviations, markdown

FIELDS = (
    "run", "model", "budget_percent", "batch", "system", "round", "tokens_per_s", "mb_per_token",
    "hit_percent", "p50_ms", "p99_ms", "belady_mb_per_token", "rail_gb_s", "compute_ms_per_token",
    "planned_median", "deviation_p50", "deviation_quartiles", "plan_ms", "prefetch", "steps", "warm_steps",
    "budget_bytes", "rows", "digest", "warnings",
)  # fmt: skip
# Chosen on validation streams by planned time; see docs/disk.md.
OURS_OPTIONS = {"lookahead": 1}
# Steps, of which the first fill the memory: per batch.
STEPS = {1: (56, 16), 8: (20, 6)}
QUICK_STEPS = {1: (24, 8), 8: (8, 3)}
# Warming up and seconds of timed steps of the mapped model.
MAPPED_WARM = {1: 4, 8: 1}
MAPPED_LIMIT_S = 10.0
TINY_STEPS = {1: (120, 40), 8: (60, 20)}


def main() -> int:
    """Prepare, measure, write."""
    options = parser().parse_args()
    began = monotonic()

    def say(text: str) -> None:
        print(f"[{monotonic() - began:6.1f} s] {text}", file=sys.stderr, flush=True)

    work = options.work or Path(tempfile.gettempdir()) / "prescope-disk-tier"
    work.mkdir(parents=True, exist_ok=True)
    name = "disk_tier_quick" if options.quick else "disk_tier"
    table = Table(options.output / f"{name}.csv", fresh=options.fresh)
    notes = [
        f"{date.today().isoformat()}, {len(os.sched_getaffinity(0))} cores, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    ]
    try:
        if "cut" in options.models:
            folder, popularity, found = prepare_cut(
                work,
                say,
                notes,
                **({"layers": 6, "expert_size": 128, "name": "cut-quick"} if options.quick else {}),
                traces=options.traces,
            )
            measure(folder, popularity, options, table, say, notes, name=found, work=work)
        if "tiny" in options.models:
            from prescope.tiny import tiny_model_path

            measure(tiny_model_path(), None, options, table, say, notes, name="tiny", work=work)
    finally:
        if table.lines:
            for model in dict.fromkeys(line["model"] for line in table.lines):
                lines = [line for line in table.lines if line["model"] == model]
                notes.append(
                    f"{model}: rail's best speed {max(float(line['rail_gb_s']) for line in lines):.2f} GB/s; "
                    f"median over cells of a step's median deviation from its plan: {deviations(lines)}"
                )
            (options.output / f"{name}.md").write_text(markdown(table.lines, notes), encoding="utf-8")
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    say("done")
    return 0


def parser() -> argparse.ArgumentParser:
    """Options; the defaults make the published table."""
    parsed = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsed.add_argument("--quick", action="store_true", help="a small model, few steps, rough costs")
    parsed.add_argument("--work", type=Path, help="folder for models; default: below the temporary folder")
    parsed.add_argument("--keep", action="store_true", help="keep the models")
    parsed.add_argument("--fresh", action="store_true", help="forget earlier results")
    parsed.add_argument("--models", nargs="+", choices=("cut", "tiny"), default=("cut", "tiny"))
    parsed.add_argument("--budgets", nargs="+", type=int, default=(10, 25, 50), help="percent")
    parsed.add_argument("--batches", nargs="+", type=int, choices=(1, 8), default=(1, 8))
    parsed.add_argument("--systems", nargs="+", default=(OURS, MAPPED, "lru", "layer-lru", "static"))
    parsed.add_argument("--rounds", type=int, default=1, help="repeats of everything; the tables show all")
    parsed.add_argument("--traces", type=Path, help="folder of stored routing traces")
    parsed.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return parsed


class Table:
    """Rows of the CSV file, which grows as they come."""

    def __init__(self, path: Path, *, fresh: bool) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.lines = read_lines(path, fresh=fresh)

    def has(self, line: dict[str, Any]) -> bool:
        """Whether a cell was measured."""
        return any(all(str(old[key]) == str(value) for key, value in line.items()) for old in self.lines)

    def add(self, line: dict[str, Any]) -> None:
        """Append and save."""
        self.lines.append(line)
        write_lines(self.path, self.lines, FIELDS)


def measure(
    folder: Path,
    popularity: Array | None,
    options: Any,
    table: Table,
    say: Any,
    notes: list[str],
    *,
    name: str,
    work: Path,
) -> None:
    """All cells of one model."""
    import torch

    from benchmarks.disk_fused import write_fused
    from prescope.runtime.plugin.load import load

    costs = costs_of(folder, work / f"{folder.name}-costs.json", say, quick=options.quick)
    torch.set_num_threads(costs.provenance.threads or 1)
    loaded = load(folder, "1GiB", costs=costs)
    loaded.engine.detach()
    store, test = loaded.store, streams()[VALIDATION:]
    notes.append(
        f"{name}: {store.size_bytes / 1e9:.2f} GB of experts, {store.row_bytes(0) / 1e6:.2f} MB each; "
        f"measured costs: read {costs.costs.copy_ns(0) / 1e6:.2f} ms at depth {costs.provenance.depth} "
        f"({store.row_bytes(0) / costs.costs.copy_ns(0):.2f} GB/s), expert of one token "
        f"{costs.costs.gpu_ns(0, 1) / 1e6:.2f} ms, dense {costs.costs.dense_ns(1, 1) / 1e6:.2f} ms a layer, "
        f"{costs.provenance.threads} thread(s); {costs.provenance.notes or 'quiet'}"
    )
    if popularity is None:
        popularity = profiled(loaded.model, costs, store)
    mapped, threads = None, 1
    if MAPPED in options.systems:
        fused = work / f"{folder.name}-fused.safetensors"
        if not fused.exists():
            say("writing the experts as the stock modules hold them")
            write_fused(store, fused)
        try:
            mapped = MappedModel(folder, fused)
            threads = best_threads(mapped, test)
            notes.append(
                f"{name}: mmap computes with {threads} thread(s), the faster number here, and has an eighth "
                f"of the budget, 1 to {allowance_bytes(2**40) / 2**20:.0f} MiB, more for what steps allocate"
            )
        except OSError as error:
            notes.append(f"mmap not measured: no memory limit for a process here ({error})")
    try:
        for round_number in range(options.rounds):
            for batch in options.batches:
                for percent in options.budgets:
                    cell(
                        loaded.model, store, mapped, threads, test, costs, popularity, options, table, say,
                        name=name, batch=batch, percent=percent, round_number=round_number,
                    )  # fmt: skip
    finally:
        if mapped is not None:
            mapped.close()
        loaded.close()


def best_threads(mapped: MappedModel, test: Array) -> int:
    """Number of threads with which the stock model is fastest when all fits into memory."""
    speeds = {}
    for threads in (1, len(os.sched_getaffinity(0))):
        # Twice, as the first time reads from the disk.
        for _ in range(2):
            answer = mapped.run([test[:1, :6]], warm=2, budget_bytes=None, threads=threads)
            speeds[threads] = float(np.median(answer["times_ns"]))
    return min(speeds, key=lambda threads: speeds[threads])


def profiled(model: Any, costs: Any, store: Any) -> Array:
    """Popularity on the streams that are not tested on, from one run with everything in memory."""
    result = engine_cell(
        model,
        System(name="profile", policy="on-demand", residency="lru"),
        [streams()[:8]],
        warm=0,
        budget_bytes=2 * store.size_bytes,
        costs=costs,
        popularity=np.zeros((store.layers, store.experts)),
    )
    return np.asarray(np.mean([counts / 8 for counts in result.counts], axis=0))


def cell(
    model: Any,
    store: Any,
    mapped: MappedModel | None,
    threads: int,
    test: Array,
    costs: Any,
    popularity: Array,
    options: Any,
    table: Table,
    say: Any,
    *,
    name: str,
    batch: int,
    percent: int,
    round_number: int,
) -> None:
    """All systems of one budget and batch, one after the other."""
    planned = QUICK_STEPS if options.quick else TINY_STEPS if name == "tiny" else STEPS
    steps, warm = planned[batch]
    groups = groups_of(test, batch, steps)
    budget = store.size_bytes * percent // 100
    counts: list[Array] = []
    speed = rail_gb_s(store)
    for system in (*SYSTEMS, None):
        title = MAPPED if system is None else system.name
        key = {
            "run": f"{steps}-{warm}", "model": name, "budget_percent": percent, "batch": batch,
            "system": title, "round": round_number,
        }  # fmt: skip
        if title not in options.systems or table.has(key) or (system is None and mapped is None):
            continue
        if system is None:
            assert mapped is not None
            # It fills its memory sooner, as it brings in more, and would take an hour for all steps.
            begin = min(warm, MAPPED_WARM[batch])
            answer = mapped.run(
                groups, warm=begin, budget_bytes=budget, threads=threads, limit_s=MAPPED_LIMIT_S
            )
            result = CellResult(
                times_ns=answer["times_ns"], digest=answer["digest"], read_bytes=answer["bytes"]
            )
            if not counts:
                say("mmap alone: no bounds")
                continue
        else:
            if system.name == OURS:
                system = replace(system, options=OURS_OPTIONS)
            result = engine_cell(
                model, system, groups, warm=warm, budget_bytes=budget, costs=costs, popularity=popularity
            )
            counts, begin = result.counts, warm
        line = {
            **key,
            **figures_of(
                result, counts, store, costs.costs, batch=batch, warm=begin, budget=budget, speed=speed
            ),
        }
        table.add(line)
        say(
            f"{name} {percent} % batch {batch} {title}: {line['tokens_per_s']} tokens/s, "
            f"{line['mb_per_token']} MB/token, hit {line['hit_percent']} %, "
            f"from plan {line['deviation_p50']} %"
        )


def figures_of(
    result: CellResult,
    counts: list[Array],
    store: Any,
    costs: Any,
    *,
    batch: int,
    warm: int,
    budget: int,
    speed: float,
) -> dict[str, Any]:
    """A line of the table without its key."""
    times = np.array(result.times_ns)
    tokens = batch * times.size
    rows = budget // store.row_bytes(0)
    window = slice(warm, warm + times.size)
    reads = fewest_reads(counts, rows=rows, window=window)
    compute_ns = compute_bound_ns(counts, window=window, batch=batch, costs=costs)
    total = int(times.sum())
    line: dict[str, Any] = dict.fromkeys(FIELDS[6:], "")
    line |= {
        "tokens_per_s": round(tokens / total * 1e9, 3),
        "mb_per_token": round(result.read_bytes / tokens / 1e6, 2),
        "hit_percent": "" if result.hit_rate is None else round(100 * result.hit_rate, 1),
        "p50_ms": round(float(np.median(times)) / 1e6, 2),
        "p99_ms": round(float(np.quantile(times, 0.99)) / 1e6, 2),
        "belady_mb_per_token": round(reads * store.row_bytes(0) / tokens / 1e6, 3),
        "rail_gb_s": round(speed, 3),
        "compute_ms_per_token": round(compute_ns / tokens / 1e6, 3),
        "steps": times.size,
        "warm_steps": warm,
        "budget_bytes": budget,
        "rows": rows,
        "digest": result.digest,
        "warnings": "; ".join(result.warnings),
    }
    if result.planned_ns:
        ratio = np.array(result.executed_ns) / np.array(result.planned_ns)
        low, middle, high = np.quantile(np.abs(ratio - 1), (0.25, 0.5, 0.75))
        line |= {
            "planned_median": round(float(np.median(ratio)), 3),
            "deviation_p50": round(100 * float(middle), 1),
            "deviation_quartiles": f"{100 * low:.1f} to {100 * high:.1f}",
            "plan_ms": round(result.plan_ns / 1e6, 2),
            "prefetch": "/".join(map(str, result.prefetch)),
        }
    return line


if __name__ == "__main__":
    sys.exit(main())
