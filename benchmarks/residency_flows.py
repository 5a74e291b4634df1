"""How long the flows of residency take: a table of solve times.

``python benchmarks/residency_flows.py`` draws horizons like those of ``benchmarks/residency.py`` (batch 1 to
32, 10 to 75 % resident, 13.2 MB experts, one seed, ``--steps`` steps), and times the flow of the offline rule
(`prescope.solver.residency.FlowRule`: one flow at equal prices of host and link, given Belady's plan) and
`horizon_bound` (up to twelve flows and linear programmes). All are min-cost flows solved by
``ortools.graph.python.min_cost_flow``. Wall times of this machine, one thread. Writes
``benchmarks/results/residency_flows.csv`` and ``.md``; without ``../shared/traces`` there is nothing to do.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from csv_lines import read_lines, write_lines
from residency import CAPACITIES, HERE, STEPS, TRACE, decoded, horizon_of, planner_of, rows_of
from uncertainty_steps import Steps, read_shared_trace, split_of

from prescope.instances import RoutingTrace, choose_residents, popularity
from prescope.solver.residency import Belady, FlowRule, Prices, horizon_bound, run_horizon
from prescope.solver.residency.uses import all_uses

PRICES = Prices(cpu=0.5, gpu=0.0, link=0.5)
FIELDS = ("batch", "capacity", "steps", "uses", "flow_s", "bound_s")


def main() -> int:
    """Time what is missing and write both files."""
    options = parser().parse_args()
    if not TRACE.exists():
        print(f"nothing to do: no trace {TRACE}", file=sys.stderr)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "residency_flows.csv"
    lines = read_lines(path, fresh=options.fresh)
    trace = read_shared_trace(TRACE)
    split = split_of(trace)
    shares = popularity(trace, rows=np.concatenate([rows_of(trace, one) for one in split.train]))
    for batch in STEPS:
        steps = steps_of(trace, split.test, batch, options.steps)
        for capacity in CAPACITIES:
            if any((int(one["batch"]), float(one["capacity"])) == (batch, capacity) for one in lines):
                continue
            lines.append(cell(trace, steps, batch, capacity, choose_residents(shares, fraction=capacity)))
            write_lines(path, lines, FIELDS)
            print(lines[-1], file=sys.stderr)
    path.with_suffix(".md").write_text(markdown(lines), encoding="utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    made.add_argument("--steps", type=int, default=48, help="steps of a horizon")
    made.add_argument("--fresh", action="store_true", help="start over")
    made.add_argument("--output", type=Path, default=HERE / "results")
    return made


def steps_of(trace: RoutingTrace, sequences: tuple[int, ...], batch: int, steps: int) -> Steps:
    """Steps of drawn sequences, without forecasts: none are needed here."""
    random = np.random.default_rng([0, batch])
    counts = np.zeros((steps, trace.layers, trace.meta.experts), dtype=np.int64)
    for _ in range(batch):
        tokens = decoded(trace, int(random.choice(sequences)))
        first = int(random.integers(0, max(1, len(tokens) - steps)))
        # A sequence that is too short begins again.
        counts += tokens[np.arange(first, first + steps) % len(tokens)]
    nothing = np.zeros((1, steps * trace.layers, trace.meta.experts))
    return Steps(
        counts=counts.reshape(-1, trace.meta.experts), probabilities=nothing, expected_tokens=nothing
    )


def cell(trace: RoutingTrace, steps: Steps, batch: int, capacity: float, residents: Any) -> dict[str, Any]:
    """One line."""
    horizon = horizon_of(steps, batch, trace.layers, residents)
    rule = Belady([demand.counts for demand in horizon.demands])
    executed = run_horizon(horizon, rule, planner_of("intra-layer", horizon, steps))
    begin = perf_counter()
    FlowRule(horizon, PRICES, executed)
    flow_s = perf_counter() - begin
    begin = perf_counter()
    horizon_bound(horizon)
    bound_s = perf_counter() - begin
    return {
        "batch": batch,
        "capacity": capacity,
        "steps": horizon.steps,
        "uses": len(all_uses(horizon)),
        "flow_s": round(flow_s, 3),
        "bound_s": round(bound_s, 3),
    }


def markdown(lines: list[dict[str, Any]]) -> str:
    """The table for people."""
    steps = sorted({int(one["steps"]) for one in lines})
    parts = [
        "# Solve times of the flows\n",
        "Made by `python benchmarks/residency_flows.py` (do not edit): wall time on the machine that ran it, "
        f"one thread, horizons of {', '.join(map(str, steps))} steps of gpt-oss-20b (24 layers, 32 experts). "
        "Uses: activated experts over all steps, which set the size of the network. Flow: one offline flow; "
        "bound: `horizon_bound`, up to twelve flows.\n",
        "| batch | resident | uses | flow, s | bound, s |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    parts += [
        f"| {one['batch']} | {float(one['capacity']):.0%} | {one['uses']} | {float(one['flow_s']):.2f} "
        f"| {float(one['bound_s']):.2f} |"
        for one in lines
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
