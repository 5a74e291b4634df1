"""Policies side by side: clairvoyant and causal, three batch sizes, two machines.

``python benchmarks/tables.py`` simulates everything in virtual time, executes some of it in slow motion on
this CPU, and writes ``benchmarks/results/tables.csv`` and ``tables.md``. Exit code 1 when a check fails:
tokens differ from the stock model's, or `dp` is behind `presched` by more than 0.1 % where demand is known.
"""

from __future__ import annotations

import argparse
import csv
import io
import platform
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from prescope.compare import CompareSettings, Comparison, Row, compare
from prescope.models import TINY, open_model, shipped_prompts
from prescope.report import comparison_heading, comparison_markdown

PRESETS = ("qwen3-30b-a3b@a100-pcie4", "qwen3-30b-a3b@v100-pcie3")
BATCHES = (1, 8, 32)
NEW_TOKENS = 16
TOLERANCE = 0.001

FIELDS = (
    "table", "preset", "link", "batch", "policy", "predictor", "backend", "tokens_equal", "planned_ns",
    "simulated_ns", "executed_ns", "executed_vs_simulated", "dilation", "violations", "violation_share",
    "decode_simulated_ns", "bytes_moved", "hit_rate", "prefetch_useful", "prefetch_wasted", "prefetch_late",
    "gpu_share", "tokens_per_s", "plan_ns", "behind_presched", "check",
)  # fmt: skip


def main() -> int:
    """Measure, write both files, and say whether the checks hold."""
    options = parser().parse_args()
    began = monotonic()
    model, tokenizer = open_model(TINY)
    results = []
    for clairvoyant in (True, False):
        for preset in options.presets:
            for batch in options.batches:
                settings = CompareSettings(
                    preset=preset, clairvoyant=clairvoyant, new_tokens=options.tokens, backend="sim"
                )
                if batch in options.execute:
                    settings = replace(settings, backend="cpu", time_budget_s=options.budget)
                prompts, others = shipped_prompts(TINY, batch, seed=settings.seed)
                result = compare(model, tokenizer, prompts, others, settings, name=TINY)
                results.append(result)
                print(f"[{monotonic() - began:6.1f} s] {title(result)}", file=sys.stderr)
    lines = [line for result in results for line in csv_lines(result)]
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "tables.csv").write_text(csv_text(lines), encoding="utf-8")
    (options.output / "tables.md").write_text(markdown(results, lines, monotonic() - began), encoding="utf-8")
    failed = [line for line in lines if line["check"] != "ok"]
    for line in failed:
        print(f"FAILED {line['table']} {line['preset']} b{line['batch']} {line['policy']}: {line['check']}")
    executed = sum(line["executed_ns"] is not None for line in lines)
    print(f"{len(lines)} cells, {executed} executed, {len(failed)} failed")
    return 1 if failed else 0


def parser() -> argparse.ArgumentParser:
    """Options; the defaults make the published tables."""
    parsed = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsed.add_argument("--presets", nargs="+", default=PRESETS)
    parsed.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parsed.add_argument("--tokens", type=int, default=NEW_TOKENS, help="generated for each prompt")
    parsed.add_argument(
        "--execute", nargs="*", type=int, default=(8,), help="batches executed in slow motion"
    )
    parsed.add_argument("--budget", type=float, default=400.0, help="seconds per executed table")
    parsed.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return parsed


def title(result: Comparison) -> str:
    """What a table is about."""
    kind = "clairvoyant" if result.clairvoyant else "causal"
    return f"{kind}, {result.preset}, batch {result.rows[0].batch}"


def csv_lines(result: Comparison) -> list[dict[str, Any]]:
    """One line per policy."""
    presched = next((row for row in result.rows if row.policy == "presched"), None)
    return [csv_line(result, row, presched) for row in result.rows]


def csv_line(result: Comparison, row: Row, presched: Row | None) -> dict[str, Any]:
    """One cell of the tables."""
    document = row.document()
    line = {name: document[name] for name in FIELDS if name in document}
    executed = row.executed_ns
    behind = None if presched is None else row.simulated_ns / presched.simulated_ns - 1
    return {
        "table": "clairvoyant" if result.clairvoyant else "causal",
        "preset": result.preset,
        "backend": result.backend,
        **line,
        "executed_vs_simulated": None if executed is None else executed / row.simulated_ns - 1,
        "decode_simulated_ns": row.decode.simulated_ns,
        "prefetch_useful": row.totals.prefetch_useful,
        "prefetch_wasted": row.totals.prefetch_wasted,
        "prefetch_late": row.totals.prefetch_late,
        "behind_presched": behind,
        "check": check(result, row, behind),
    }


def check(result: Comparison, row: Row, behind: float | None) -> str:
    """``ok``, or what is wrong with a cell."""
    if not row.tokens_equal:
        return "tokens differ from the stock model's"
    if result.clairvoyant and row.policy == "dp" and behind is not None and behind > TOLERANCE:
        return f"{behind:.3%} behind presched"
    return "ok"


def csv_text(lines: list[dict[str, Any]]) -> str:
    """All cells as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def markdown(results: list[Comparison], lines: list[dict[str, Any]], seconds: float) -> str:
    """All tables for people."""
    failed = sum(line["check"] != "ok" for line in lines)
    parts = [
        "# Policies side by side\n",
        "Made by `python benchmarks/tables.py` (do not edit). The tiny model that comes with the package, "
        "its own routing, the costs of a published model on an assumed machine. *planned* is the exact "
        "evaluator, *simulated* the event simulator, *executed* is emulated: a run in slow motion on this "
        "CPU divided by its dilation. None of them is a measurement of the machine named. All policies have "
        "the same memory, residents and predictor.\n",
        f"Machine: {platform.machine()}, Python {platform.python_version()}; {seconds:.0f} s in all. "
        f"Checks (tokens equal to the stock model's in all {len(lines)} cells; with demand known, `dp` at "
        f"most {TOLERANCE:.1%} behind `presched`): {'all hold' if not failed else f'{failed} FAILED'}.\n",
    ]
    for result in results:
        heading = comparison_heading(result).replace("\n", "; ")
        behind = [f"{line['policy']}: {line['check']}" for line in csv_lines(result) if line["check"] != "ok"]
        parts += [f"## {title(result)}\n", f"{heading}.\n", comparison_markdown(result)]
        parts += ["\n".join(behind) + "\n"] if behind else []
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
