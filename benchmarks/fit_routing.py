"""Fit the synthetic routing's parameters to recorded traces.

    python -m benchmarks.fit_routing            # the tiny model's trace and those of ../shared/traces
    python -m benchmarks.fit_routing --output instances/data/routing_recipes.json

Random search followed by coordinate steps, seeded, on the sum of squared differences of the statistics of
`benchmarks.routing_statistics` (entropy, reuse after 1 and 8 tokens, cross, distinct experts of 8 tokens).
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from benchmarks.routing_statistics import at_hand, imitate, statistics
from prescope.instances import RoutingRecipe, RoutingTrace

FITTED = ("entropy", "reuse_1", "reuse_8", "cross", "distinct_b8")
TRIALS = 60
ROUNDS = 4
SCALES = {"popularity": 0.15, "strength": 0.4, "topic": 0.08, "slow": 0.1, "memory": 0.08}
ABOUT = (
    "Parameters of prescope.instances.synthetic_routing by the trace they were fitted to "
    "(python -m benchmarks.fit_routing)."
)


def distance(recipe: RoutingRecipe, trace: RoutingTrace, wanted: dict[str, float]) -> float:
    """Return the sum of squared differences of the fitted statistics."""
    found = [
        statistics(imitate(recipe, trace, seed)) for seed in ((1, 2, 3) if trace.sequences == 1 else (1,))
    ]
    return sum((float(np.mean([f[name] for f in found])) - wanted[name]) ** 2 for name in FITTED)


def fit(name: str, trace: RoutingTrace, *, seed: int = 0) -> RoutingRecipe:
    """Return the parameters nearest to a trace."""
    rng, wanted = np.random.default_rng(seed), statistics(trace)
    best, least = None, np.inf
    for _ in range(TRIALS):
        topic = rng.uniform(0, 0.5)
        trial = RoutingRecipe(
            name=name,
            popularity=round(rng.uniform(0.1, 1.6), 3),
            strength=round(rng.uniform(0.5, 5), 3),
            topic=round(topic, 3),
            slow=round(rng.uniform(0, 1 - topic - 0.01), 3),
            memory=round(rng.uniform(0.5, 0.98), 3),
            rank=int(rng.choice([4, 8, 16, 32])),
        )
        found = distance(trial, trace, wanted)
        if found < least:
            best, least = trial, found
    assert best is not None
    for turn in range(ROUNDS):
        for field, scale in SCALES.items():
            for step in (-scale / 2**turn, scale / 2**turn):
                value = round(max(0.0, getattr(best, field) + step), 3)
                try:
                    trial = replace(best, **{field: value})
                except ValueError:
                    continue
                found = distance(trial, trace, wanted)
                if found < least:
                    best, least = trial, found
    print(f"{name}: distance {least:.5f}, {best}", file=sys.stderr, flush=True)
    return best


def main() -> int:
    """Fit all traces at hand and write or print the recipes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="file to write; by default stdout")
    parser.add_argument("--traces", type=Path, default=None, help="folder of traces")
    arguments = parser.parse_args()
    recipes = {}
    for name, trace in at_hand(arguments.traces).items():
        recipes[name] = {k: v for k, v in asdict(fit(name, trace)).items() if k != "name"}
    text = json.dumps({"about": ABOUT, "recipes": recipes}, indent=1) + "\n"
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        arguments.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
