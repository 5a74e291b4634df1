"""Search for instances that trap rules: the seeds of the library's set ``adversarial``.

    python -m benchmarks.search_adversarial --output instances/data/adversarial.json

Draws `DRAWS` instances of each family and keeps the `KEPT_OPEN` in which dp is farthest above the best plan
known after CP-SAT, and of the others the `KEPT_FAR` in which the better of presched and intra-layer is; none
where that rule is within `LEAST` of it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from prescope.formulation import Instance
from prescope.instances.library_recipes.adversarial import FAMILIES, adversarial_instance
from prescope.solver import solve
from prescope.solver.proof import prove

DRAWS = 24
LEAST = 0.01
EFFORT = 0.2
KEPT_OPEN = 3
KEPT_FAR = 2


def gaps(instance: Instance) -> tuple[float, float]:
    """Return how far dp, and the better of presched and intra-layer, are above the best known plan."""
    results = {name: solve(instance, method=name) for name in ("dp", "presched", "intra-layer")}
    first = results["dp"]
    if first.plan is None or first.makespan_ns is None:
        raise ValueError(f"expected a plan for {instance.name}, got none")
    best_ns = first.makespan_ns
    if first.lower_bound_ns < best_ns:
        best_ns = prove(instance, first.plan, deterministic_time=EFFORT).makespan_ns
    above = {name: ((r.makespan_ns or 0) - best_ns) / max(best_ns, 1) for name, r in results.items()}
    return above["dp"], min(above["presched"], above["intra-layer"])


def main() -> int:
    """Search and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="file to write; by default stdout")
    parser.add_argument("--draws", type=int, default=DRAWS)
    arguments = parser.parse_args()
    seeds = {}
    for family in FAMILIES:
        drawn = [(*gaps(adversarial_instance(family, seed)), seed) for seed in range(arguments.draws)]
        found = [line for line in drawn if line[1] > LEAST]
        open_first = sorted(found, key=lambda line: (-line[0], line[2]))[:KEPT_OPEN]
        rest = [line for line in found if line not in open_first]
        chosen = open_first + sorted(rest, key=lambda line: (-line[1], line[2]))[:KEPT_FAR]
        seeds[family] = [seed for _, _, seed in chosen]
        told = ", ".join(f"{seed}: dp {dp:.3%}, rules {rules:.2%}" for dp, rules, seed in chosen)
        print(f"{family}: {told}", file=sys.stderr, flush=True)
    about = "Seeds of the set adversarial by family, found by python -m benchmarks.search_adversarial."
    text = json.dumps({"about": about, "seeds": seeds}, indent=1) + "\n"
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        arguments.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
