"""How far each rule's split of a single layer is from the best one, on recorded routing.

``python -m benchmarks.rule_fidelity`` takes decode steps of ``../shared/traces/gptoss_20b.npz``, cuts them
into single layers that know nothing beforehand, lets every rule and the exact split (`intra-layer`) plan
each, and writes ``benchmarks/results/rule_fidelity.csv`` and ``.md``: time from the gate over the best.
Simulated by the exact evaluator on assumed costs, deterministic. The same quantity was measured of peers' own
code on the same recording, which the table repeats.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.csv_lines import write_lines
from prescope.formulation import Demand, Instance, instance_arrays, makespan_ns
from prescope.instances import RoutingTrace, build_instances, popularity, read_trace
from prescope.solver import Limits, get_method

TRACE = Path(__file__).resolve().parents[2] / "shared" / "traces" / "gptoss_20b.npz"
MACHINES = ("a100-pcie4", "v100-pcie3", "rtx4090-desktop", "h100-pcie5")
BATCHES = (1, 8, 32)
RESIDENT = (0.1, 0.25, 0.5)
TRAIN = 56
"""Sequences whose popularity chooses the residents; batches come from the others."""
# Peers' code, ranges of means over several machines and resident shares, by an independent harness.
PEERS = {
    "hybrimoe": "1.000 / 1.01-1.09 / 1.005-1.19 (worst layer 1.60)",
    "fiddler": "1.00-1.63",
    "freetoken": "1.00-1.98 (worst layer 16.4)",
    "ktransformers": "1.05-5.13",
}


def main() -> int:
    """Play all layers and write both files."""
    options = parser().parse_args()
    if not options.trace.exists():
        print(f"expected recorded routing at {options.trace}, got no file", file=sys.stderr)
        return 1
    trace = read_trace(options.trace)
    shares = popularity(trace, rows=np.arange(int(trace.seq_offsets[TRAIN])))
    lines = [
        line
        for machine in MACHINES
        for resident in RESIDENT
        for batch in BATCHES
        for line in measure(trace, shares, machine, resident, batch, options.steps)
    ]
    options.output.mkdir(parents=True, exist_ok=True)
    write_lines(options.output / "rule_fidelity.csv", lines)
    (options.output / "rule_fidelity.md").write_text(markdown(lines), encoding="utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--trace", type=Path, default=TRACE)
    options.add_argument("--steps", type=int, default=4, help="decode steps per cell")
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return options


def measure(
    trace: RoutingTrace, shares: Any, machine: str, resident: float, batch: int, steps: int
) -> Iterator[dict[str, Any]]:
    """Every rule on the layers of one cell."""
    files = build_instances(
        trace,
        f"gpt-oss-20b@{machine}",
        batch,
        slots=48,
        resident_fraction=resident,
        resident_popularity=shares,
        sequences=range(TRAIN, trace.sequences),
        every=60,
        limit=steps,
    )
    layers = [layer for file in files for layer in single_layers(file.instance)]
    best = [gate_ns(layer, "intra-layer") for layer in layers]
    for rule in PEERS:
        ratios = [
            gate_ns(layer, rule) / time_ns for layer, time_ns in zip(layers, best, strict=True) if time_ns
        ]
        yield {
            "machine": machine,
            "resident": resident,
            "batch": batch,
            "rule": rule,
            "layers": len(ratios),
            "mean": round(fmean(ratios), 4),
            "worst": round(max(ratios), 4),
        }


def single_layers(instance: Instance) -> Iterator[Instance]:
    """Each layer by itself, without lookahead."""
    for layer in range(instance.layers):
        costs = instance.costs
        alone = replace(
            costs,
            expert_bytes=costs.expert_bytes[layer : layer + 1],
            gpu=(costs.gpu[layer % len(costs.gpu)],),
            cpu=(costs.cpu[layer % len(costs.cpu)],),
            dense=(costs.dense[layer % len(costs.dense)],),
        )
        yield replace(
            instance,
            name=f"{instance.name}-l{layer}",
            costs=alone,
            demand=Demand(
                counts=instance.demand.counts[layer : layer + 1], batch_tokens=instance.demand.batch_tokens
            ),
            residents=instance.residents[layer : layer + 1],
            lookahead=0,
        )


def gate_ns(instance: Instance, method: str) -> int:
    """Time of a layer from its gate on."""
    draft = get_method(method).plan(instance, limits=Limits(), seed=0, hint=None)
    if draft.plan is None:
        raise RuntimeError(f"expected a plan of {instance.name} by {method}, got none")
    return makespan_ns(instance, draft.plan) - int(instance_arrays(instance).dense_ns[0])


def markdown(lines: list[dict[str, Any]]) -> str:
    """The table."""
    text = [
        "# Splits of single layers against the best split",
        "",
        "Made by `python -m benchmarks.rule_fidelity` (do not edit). Recorded decode routing of gpt-oss-20b, "
        f"residents by the popularity of the first {TRAIN} sequences, steps of the others, costs assumed for "
        f"{', '.join(MACHINES)}, {', '.join(f'{100 * share:g}' for share in RESIDENT)} % resident; "
        "simulated. Time from the gate over the best split's: lowest to highest mean over layers of a cell "
        "(worst layer). *Peers*: the same of peers' own code on the same recording, on other assumed costs; "
        "one range stands for all batches.",
        "",
        f"| rule | {' | '.join(f'batch {batch}' for batch in BATCHES)} | peers |",
        "|---|" + "---|" * (len(BATCHES) + 1),
    ]
    for rule, peers in PEERS.items():
        row = []
        for batch in BATCHES:
            mine = [line for line in lines if (line["rule"], line["batch"]) == (rule, batch)]
            means = [line["mean"] for line in mine]
            worst = max(line["worst"] for line in mine)
            row.append(f"{min(means):.3f}-{max(means):.3f} ({worst:.2f})")
        text.append(f"| {rule} | {' | '.join(row)} | {peers} |")
    return "\n".join([*text, ""])


if __name__ == "__main__":
    sys.exit(main())
