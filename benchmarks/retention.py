"""What residents that change from step to step bring the plug-in, on text that the tiny model generates.

``python benchmarks/retention.py`` generates with the shipped model and prompts in batches of 1, 4, 8 and 16,
by copying on demand and by policy ``expected`` with the shipped predictor, under every rule of retention. All
is simulated in virtual time, some batches are executed in slow motion as well (``--execute``, within
``--budget`` seconds each). Every run must give the stock model's tokens. A cell that
``benchmarks/results/retention.csv`` already has is not run again (``--again`` does).

Writes ``benchmarks/results/retention.csv`` and ``retention.md``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from csv_lines import read_lines, write_lines

from prescope.compare import CompareSettings, Row, compare
from prescope.models import TINY, named_predictor, open_model, shipped_prompts

RETENTIONS = ("static", "lru", "lfu", "moving-average", "learned")
POLICIES = ("on-demand", "expected")
PRESET = "qwen3-30b-a3b@a100-pcie4"
FIELDS = (
    "preset", "seed", "batch", "tokens", "policy", "retention", "tokens_equal", "planned_ns", "simulated_ns",
    "executed_ns", "decode_simulated_ns", "exchanges", "hit_rate", "bytes_moved", "prefetch_useful",
    "prefetch_wasted", "prefetch_late", "plan_ns", "dilation", "violation_share",
)  # fmt: skip


def main() -> int:
    """Run what is missing and write both files."""
    options = parser().parse_args()
    path = options.output / "retention.csv"
    lines = [] if options.again else read_lines(path)
    model, tokenizer = open_model(TINY)
    for seed in range(options.seeds):
        for batch in options.batches:
            execute = batch in options.execute and seed == 0
            if have(lines, seed, batch, options.tokens, execute):
                continue
            settings = CompareSettings(
                policies=POLICIES,
                retentions=RETENTIONS,
                preset=PRESET,
                backend="cpu" if execute else "sim",
                time_budget_s=options.budget if execute else None,
                predictor=named_predictor(TINY, "llapor"),
                new_tokens=options.tokens,
                seed=seed,
            )
            prompts, others = shipped_prompts(TINY, batch, seed=seed)
            result = compare(model, tokenizer, prompts, others, settings, name=TINY)
            lines = [line for line in lines if (line["seed"], line["batch"]) != (str(seed), str(batch))]
            lines += [line_of(row, seed, options.tokens) for row in result.rows]
            options.output.mkdir(parents=True, exist_ok=True)
            write_lines(path, lines, FIELDS)
            print(f"seed {seed} batch {batch}: {len(result.rows)} runs", file=sys.stderr)
    path.with_suffix(".md").write_text(markdown(lines, options.tokens), encoding="utf-8")
    wrong = [line for line in lines if line["tokens_equal"] != "True"]
    for line in wrong:
        print(f"FAILED batch {line['batch']} {line['policy']} {line['retention']}: other tokens")
    return 1 if wrong else 0


def parser() -> argparse.ArgumentParser:
    """Options; the defaults make the published table."""
    parsed = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsed.add_argument("--batches", nargs="+", type=int, default=(1, 4, 8, 16))
    parsed.add_argument("--seeds", type=int, default=3, help="draws of prompts")
    parsed.add_argument("--tokens", type=int, default=32, help="generated for each prompt")
    parsed.add_argument("--execute", nargs="*", type=int, default=(1,), help="batches executed, first seed")
    parsed.add_argument("--budget", type=float, default=300.0, help="seconds that a batch may execute")
    parsed.add_argument("--again", action="store_true", help="run everything again")
    parsed.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return parsed


def have(lines: list[dict[str, str]], seed: int, batch: int, tokens: int, executed: bool) -> bool:
    """Whether a cell is complete, with executed times where they are wanted and not refused."""
    cell = [
        line
        for line in lines
        if (line["seed"], line["batch"], line["tokens"]) == (str(seed), str(batch), str(tokens))
    ]
    quoted = all(line["executed_ns"] for line in cell) or not executed
    return len(cell) == len(POLICIES) * len(RETENTIONS) and quoted


def line_of(row: Row, seed: int, tokens: int) -> dict[str, str]:
    """A row of a comparison as text."""
    document = row.document()
    line: dict[str, Any] = {
        **{name: document[name] for name in FIELDS if name in document},
        "preset": PRESET,
        "seed": seed,
        "tokens": tokens,
        "decode_simulated_ns": row.decode.simulated_ns,
        **{f"prefetch_{name}": count for name, count in document["prefetch"].items()},
    }
    return {name: "" if line[name] is None else str(line[name]) for name in FIELDS}


def markdown(lines: list[dict[str, str]], tokens: int) -> str:
    """The table for people."""
    parts = [
        "# Retention in the plug-in\n",
        f"Made by `python benchmarks/retention.py` (do not edit): the shipped tiny model generates {tokens} "
        f"tokens per prompt, costs of {PRESET} (assumed), a quarter of the experts resident at first, "
        "8 slots, predictor llapor. Simulated milliseconds of all steps, prefill included, mean over draws "
        "of prompts; in brackets the share of time saved over residents that stay. *executed*: of the first "
        "draw, in slow motion (emulated), where it was executed and not refused.\n",
        "| batch | policy | retention | simulated, ms | executed, ms | exchanges per step | hits |",
        "| ---: | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for batch in sorted({int(line["batch"]) for line in lines}):
        for policy in POLICIES:
            here = [line for line in lines if (line["batch"], line["policy"]) == (str(batch), policy)]
            still = mean(int(line["simulated_ns"]) for line in here if line["retention"] == "static")
            for retention in RETENTIONS:
                cells = [line for line in here if line["retention"] == retention]
                time_ns = mean(int(line["simulated_ns"]) for line in cells)
                executed = [int(line["executed_ns"]) for line in cells if line["executed_ns"]]
                shown = f"{mean(executed) / 1e6:.1f}" if executed else "-"
                exchanges = mean(int(line["exchanges"]) for line in cells) / tokens
                hits = mean(float(line["hit_rate"]) for line in cells)
                parts.append(
                    f"| {batch} | {policy} | {retention} | {time_ns / 1e6:.1f} ({1 - time_ns / still:.1%}) "
                    f"| {shown} | {exchanges:.1f} | {hits:.0%} |"
                )
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
