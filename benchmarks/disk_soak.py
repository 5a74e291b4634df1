"""Many generations in a row from the disk: the same tokens as the fully loaded model, and memory that stays.

    python -m benchmarks.disk_soak                 # 200 generations of the tiny model
    python -m benchmarks.disk_soak --generations 20 --model FOLDER

Every generation starts from another prompt and, every twentieth time, with another budget, policy and rule,
so engines come and go as well. Logits are compared bit for bit with those of the same model fully loaded, on
its eager path. Writes the curve of resident memory; exit code 1 when a generation differs, or when memory at
the end is more than the limit above what it was after a fifth of the run.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import sys
import threading
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.csv_lines import write_lines

FIELDS = ("generation", "seconds", "rss_mib", "arena_mib", "threads", "open_files", "equal")
WAYS = (("dp", "moving-average"), ("on-demand", "lru"), ("on-demand", "layer-lru"), ("dp", "static"))
GROWTH_LIMIT_MIB = 16.0


def main() -> int:
    """Generate, compare, watch."""
    options = parser().parse_args()
    import torch

    from prescope.runtime.plugin import attach
    from prescope.runtime.plugin.load import load
    from prescope.tiny import heldout_streams, tiny_model_path

    torch.set_num_threads(1)
    folder = options.model or tiny_model_path()
    full = fully_loaded(folder)
    prompts = torch.from_numpy(heldout_streams(96, length=16))
    began = monotonic()
    lines: list[dict[str, Any]] = []
    loaded = load(folder, "1GiB")
    loaded.engine.detach()
    size = loaded.store.size_bytes
    ways = itertools.cycle(itertools.product((0.1, 0.25, 0.5), WAYS))
    engine: Any = None
    for number in range(options.generations):
        if number % 20 == 0:
            if engine is not None:
                engine.detach()
            share, (policy, residency) = next(ways)
            engine = attach(loaded.model, int(size * share), policy=policy, residency=residency)
        first = number % prompts.shape[0]
        rows = prompts[first : first + 1 + number % 3]
        equal = same(generated(loaded.model, rows, options.tokens), generated(full, rows, options.tokens))
        gc.collect()
        lines.append(
            {
                "generation": number,
                "seconds": round(monotonic() - began, 1),
                "rss_mib": round(rss_bytes() / 2**20, 1),
                "arena_mib": round(engine.report().arena_bytes / 2**20, 1),
                "threads": threading.active_count(),
                "open_files": len(os.listdir("/proc/self/fd")),
                "equal": equal,
            }
        )
        if number % 20 == 19:
            print(" | ".join(f"{key} {value}" for key, value in lines[-1].items()), file=sys.stderr)
    engine.detach()
    loaded.close()
    options.output.mkdir(parents=True, exist_ok=True)
    write_lines(options.output / "disk_soak.csv", lines, FIELDS)
    growth = growth_mib(lines)
    different = [line["generation"] for line in lines if not line["equal"]]
    print(f"{len(lines)} generations, {len(different)} differ, memory without arena grew by {growth:.1f} MiB")
    return 1 if different or growth > GROWTH_LIMIT_MIB else 0


def parser() -> argparse.ArgumentParser:
    """Options."""
    parsed = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsed.add_argument("--generations", type=int, default=200)
    parsed.add_argument("--tokens", type=int, default=12, help="new tokens of each")
    parsed.add_argument("--model", type=Path, help="checkpoint folder; default: the shipped tiny model")
    parsed.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return parsed


def fully_loaded(folder: Path) -> Any:
    """The stock model with all weights in memory, on its eager path."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype="auto")
    model.set_experts_implementation("eager")
    return model.eval()


def generated(model: Any, rows: Any, tokens: int) -> tuple[Any, Any]:
    """Tokens of a greedy generation, and the logits behind them."""
    import torch

    output = model.generate(
        rows,
        attention_mask=torch.ones_like(rows),
        max_new_tokens=tokens,
        do_sample=False,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return output.sequences, torch.stack(output.logits)


def same(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """Whether tokens and logits are equal, bit for bit."""
    import torch

    return all(torch.equal(left, right) for left, right in zip(one, other, strict=True))


def rss_bytes() -> int:
    """Resident memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth_mib(lines: list[dict[str, Any]]) -> float:
    """Memory at the end above that after a fifth of the run, without the arena, as means of twenty each."""
    rest = [line["rss_mib"] - line["arena_mib"] for line in lines]
    settled = len(rest) // 5
    width = max(1, min(20, len(rest) - settled))
    early, late = rest[settled : settled + width], rest[-width:]
    return float(sum(late) / len(late) - sum(early) / len(early))


if __name__ == "__main__":
    sys.exit(main())
