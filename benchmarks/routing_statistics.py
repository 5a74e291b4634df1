"""How skewed, how persistent and how correlated across layers routing is: recorded traces and synthetic ones.

    python -m benchmarks.routing_statistics             # all traces at hand, and the synthetic recipes
    python -m benchmarks.routing_statistics --traces FOLDER --output benchmarks/results

Reads the tiny model's trace from the library and every ``.npz`` of a folder of traces where there is one
(``../shared/traces``), and writes ``routing_statistics.csv`` and ``.md``. Per trace, means over layers of the
decoded tokens:

- entropy: of expert usage, 1 is uniform; zipf: slope of log frequency against log rank over the busier half;
- reuse 1, 8: share of a token's experts that the token 1 or 8 steps before chose as well, same layer;
- blind: the same share for two unrelated tokens (what popularity alone gives);
- cross: share of a layer's experts found among the top-k of a table of co-occurrence with the experts of the
  layer before, counted on half of the tokens and judged on the other; popularity: likewise without table;
- distinct b8, b32: share of a layer's experts activated by 8 or 32 tokens of different sequences (or of
  moments far apart where there is one sequence).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.csv_lines import write_lines
from prescope.instances import (
    NOT_RECORDED,
    Phase,
    RoutingRecipe,
    RoutingTrace,
    fitted_recipe,
    read_trace,
    synthetic_trace,
)
from prescope.instances.library_recipes.sources import tiny_trace

FOLDER = Path(__file__).resolve().parents[1].parent / "shared" / "traces"
FIELDS = (
    "trace", "experts", "top_k", "tokens", "entropy", "zipf", "reuse_1", "reuse_8", "blind", "cross",
    "popularity", "distinct_b8", "distinct_b32",
)  # fmt: skip
MOST_LAYERS = 12
UNSEEN_SEED = 9
INDEPENDENT = RoutingRecipe(
    name="Zipf 0.8, independent tokens", popularity=0.8, strength=0, topic=0, slow=0, memory=0, rank=1
)
_MOST_TOKENS = 4000
_FAR = 37
_BLOCK = 16


def one_hot(trace: RoutingTrace) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Chosen experts of decoded tokens, ``[tokens, layers, experts]``, and each token's sequence."""
    rows = np.flatnonzero((trace.phase == Phase.DECODE) & ~trace.padding)
    rows = rows[(trace.topk_ids[rows] != NOT_RECORDED).all(axis=(1, 2))]
    sequence = np.searchsorted(trace.seq_offsets, rows, side="right")
    # So many of each sequence, from its first decoded token on.
    place = np.arange(len(rows)) - np.searchsorted(sequence, sequence)
    rows = rows[place < max(_FAR, _MOST_TOKENS // trace.sequences)]
    chosen = np.zeros((len(rows), trace.layers, trace.meta.experts), dtype=bool)
    np.put_along_axis(chosen, trace.topk_ids[rows].astype(np.int64), True, axis=2)
    return chosen, np.searchsorted(trace.seq_offsets, rows, side="right")


def statistics(trace: RoutingTrace) -> dict[str, float]:
    """The figures of one trace."""
    chosen, sequence = one_hot(trace)
    tokens, layers, experts = chosen.shape
    top_k = trace.meta.top_k
    share = chosen.mean(axis=0)
    usage = share / share.sum(axis=1, keepdims=True)
    entropy = -np.where(usage > 0, usage * np.log(np.maximum(usage, 1e-12)), 0).sum(axis=1) / np.log(experts)

    def reuse(lag: int) -> float:
        same = sequence[lag:] == sequence[:-lag]
        return float((chosen[lag:] & chosen[:-lag])[same].sum(axis=2).mean() / top_k)

    return {
        "experts": experts,
        "top_k": top_k,
        "tokens": tokens,
        "entropy": float(entropy.mean()),
        "zipf": float(np.mean([_slope(row) for row in usage])),
        "reuse_1": reuse(1),
        "reuse_8": reuse(8),
        "blind": float((share**2).sum(axis=1).mean() / top_k),
        **_across(chosen, top_k),
        "distinct_b8": _distinct(chosen, 8),
        "distinct_b32": _distinct(chosen, 32),
    }


def _slope(usage: npt.NDArray[Any]) -> float:
    busy = np.sort(usage)[::-1][: max(2, len(usage) // 2)]
    busy = busy[busy > 0]
    return float(-np.polyfit(np.log(np.arange(1, len(busy) + 1)), np.log(busy), 1)[0])


def _across(chosen: npt.NDArray[np.bool_], top_k: int) -> dict[str, float]:
    # Alternating blocks: neighbours are alike, and halves of one text may differ in topic.
    counted = (np.arange(len(chosen)) // _BLOCK) % 2 == 0
    learn, judge = chosen[counted].astype(np.float32), chosen[~counted].astype(np.float32)
    table_hits, popular_hits = [], []
    for layer in range(1, chosen.shape[1]):
        popular = learn[:, layer].mean(axis=0)
        joint = learn[:, layer - 1].T @ learn[:, layer] + popular
        score = judge[:, layer - 1] @ (joint / (learn[:, layer - 1].sum(axis=0)[:, None] + 1))
        best = np.argpartition(-score, top_k - 1, axis=1)[:, :top_k]
        table_hits.append(np.take_along_axis(judge[:, layer], best, axis=1).sum() / judge[:, layer].sum())
        popular_hits.append(judge[:, layer][:, np.argsort(-popular)[:top_k]].sum() / judge[:, layer].sum())
    return {"cross": float(np.mean(table_hits)), "popularity": float(np.mean(popular_hits))}


def _distinct(chosen: npt.NDArray[np.bool_], batch: int) -> float:
    tokens = len(chosen)
    far = max(1, min(_FAR, tokens // batch))
    starts = range(0, max(1, tokens - far * (batch - 1)), 11)
    found = [chosen[start : start + far * batch : far].any(axis=0).mean() for start in starts]
    return float(np.mean(found))


def at_hand(folder: Path | None = None) -> dict[str, RoutingTrace]:
    """Return the tiny model's trace, and those of a folder where it exists, by name."""
    found = {"tiny-qwen3-moe": tiny_trace()}
    for path in sorted((folder or FOLDER).glob("*.npz")):
        found[path.stem.replace("_", "-")] = read_trace(path)
    return found


def imitate(recipe: RoutingRecipe, trace: RoutingTrace, seed: int) -> RoutingTrace:
    """Return synthetic routing with the shape and the length of a trace (fewer layers: they are alike)."""
    decoded = int((trace.phase == 1).sum())
    length = max(40, min(decoded // trace.sequences, 200))
    return synthetic_trace(
        recipe,
        model=trace.meta.model,
        layers=min(trace.layers, MOST_LAYERS),
        experts=trace.meta.experts,
        top_k=trace.meta.top_k,
        sequences=min(trace.sequences, 40),
        prompt_tokens=0,
        decode_tokens=length,
        seed=seed,
    )


def rows(folder: Path | None = None) -> list[dict[str, Any]]:
    """Return one row per trace at hand, its imitation, and the older recipe without any correlation."""
    found: list[dict[str, Any]] = []
    for name, trace in at_hand(folder).items():
        found.append({"trace": name, **statistics(trace)})
        for recipe in (fitted_recipe(name), INDEPENDENT):
            imitated = statistics(imitate(recipe, trace, UNSEEN_SEED))
            found.append({"trace": f"{name}: {recipe.name} recipe", **imitated})
    return found


def main() -> int:
    """Compute, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, default=None, help="folder of traces")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    lines = rows(arguments.traces)
    arguments.output.mkdir(parents=True, exist_ok=True)
    write_lines(arguments.output / "routing_statistics.csv", lines, FIELDS)
    text = ["| " + " | ".join(FIELDS) + " |", "|" + "---|" * len(FIELDS)]
    for line in lines:
        cells = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in (line[f] for f in FIELDS)]
        text.append("| " + " | ".join(cells) + " |")
    heading = "# Routing: recorded and synthetic\n\nMade by `python -m benchmarks.routing_statistics`.\n\n"
    document = heading + "\n".join(text) + "\n"
    (arguments.output / "routing_statistics.md").write_text(document, encoding="utf-8")
    sys.stdout.write(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
