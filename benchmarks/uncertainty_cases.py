"""Policy ``expected`` where looking ahead is hardest: few coarse experts, and batches that need all of them.

``python benchmarks/uncertainty_cases.py`` runs the policies of ``uncertainty.py`` on two more cases:

- coarse: 32 layers of 8 experts, 2 a token, 352 MB each, at batch 1, 4 and 16 with 4 slots; synthetic
  routing with the statistics fitted to gpt-oss-20b's, since no recorded trace of such a model is at hand; 40
  sequences train the predictor, 12 others are judged
- full: gpt-oss-20b's recorded test sequences, 64 and 256 tokens a step, the size of prefill chunks (decode
  tokens: the trace has no prompts)

Each is run over links of 12, 24 and 50 GB/s, hosts of 60 and 120 GB/s and 25 and 50 % residents, assumed; the
gain over the intra-layer optimum as a share of the clairvoyant plan's. Nothing is chosen here. Simulated.
Writes ``benchmarks/results/uncertainty_cases.csv`` and ``.md``; what the file already has is kept.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from csv_lines import read_lines, write_lines
from uncertainty import BASE, CLAIRVOYANT, HERE, TRACE, assumed_costs
from uncertainty_steps import draw_steps, predictor_of, read_shared_trace, split_of

from prescope.formulation import Demand, Instance, makespan_ns
from prescope.instances import RoutingTrace, choose_residents, popularity
from prescope.instances.synthetic_routing import fitted_recipe, synthetic_trace
from prescope.predictor.split import SequenceSplit
from prescope.runtime.control.rollout import roll_out, site_of
from prescope.solver import Limits, get_method
from prescope.solver.online import make_gate_policy, policy_code
from prescope.solver.online.expected import ExpectedPolicy
from prescope.solver.online.gate_arrays import PolicyCode

CASES = {"coarse": (1, 4, 16), "full": (64, 256)}
SIZE_MB = {"coarse": 352.0, "full": 13.2}
PARAMS = {"coarse": 176_000_000, "full": 24_900_000}
PREDICTORS = {"coarse": "uncertainty_coarse_predictor", "full": "uncertainty_predictor"}
SLOTS = {"coarse": 4, "full": 8}
CELLS = tuple(product((12, 24, 50), (60, 120), (0.25, 0.5)))
FIELDS = ("case", "seed", "batch", "link_gb_s", "cpu_gb_s", "resident", "policy", "time_ns")


def _dp(ahead: int) -> PolicyCode:
    return PolicyCode(ahead=ahead, copies=0, expected=False, spread=0.0)


POLICIES = {
    BASE: _dp(0),
    "presched": _dp(1),
    "dp w=6": _dp(6),
    **{f"expected w={ahead}": ExpectedPolicy(ahead=ahead).code for ahead in (2, 4, 12)},
    "expected w=12, never waits": ExpectedPolicy(ahead=12, waits=False).code,
}


def main() -> int:
    """Run what is missing and write both files; 1 when ``expected`` loses more than 0.2 % in a cell."""
    options = parser().parse_args()
    if not options.trace.exists():
        print(f"nothing to do: no trace {options.trace}", file=sys.stderr)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "uncertainty_cases.csv"
    lines = read_lines(path, fresh=options.fresh)
    for case, batches in CASES.items():
        trace, split = trace_of(case, options.trace)
        model = predictor_of(trace, options.predictors / PREDICTORS[case], split)
        rows = [np.arange(trace.seq_offsets[one], trace.seq_offsets[one + 1]) for one in split.train]
        shares = popularity(trace, rows=np.concatenate(rows))
        for seed, batch in product(range(options.seeds), batches):
            if any(
                (line["case"], int(line["seed"]), int(line["batch"])) == (case, seed, batch) for line in lines
            ):
                continue
            steps = draw_steps(trace, model, split.test, batch=batch, seed=seed, windows=1, window=20)
            total = len(steps.counts)
            for link, cpu, fraction in CELLS:
                instance = Instance(
                    name="steps",
                    costs=assumed_costs(SIZE_MB[case], link, cpu, total, PARAMS[case]),
                    demand=Demand(counts=steps.counts, batch_tokens=batch),
                    residents=choose_residents(shares, fraction=fraction) * (total // trace.layers),
                    slots=SLOTS[case],
                    lookahead=total,
                )
                place = {"case": case, "seed": seed, "batch": batch, "link_gb_s": link, "cpu_gb_s": cpu}
                place["resident"] = fraction
                plan = get_method("dp-fast").plan(instance, limits=Limits(), seed=0, hint=None).plan
                if plan is None:
                    raise RuntimeError("expected a clairvoyant plan, got none")
                lines.append(place | {"policy": CLAIRVOYANT, "time_ns": makespan_ns(instance, plan)})
                site = site_of(instance)
                by_name = policy_code(make_gate_policy("expected"))
                for policy, code in (POLICIES | {"expected by name": by_name}).items():
                    rolled = roll_out(
                        site,
                        slots=SLOTS[case],
                        counts=steps.counts,
                        probabilities=steps.probabilities,
                        expected_tokens=steps.expected_tokens,
                        code=code,
                    )
                    lines.append(place | {"policy": policy, "time_ns": int(rolled.layer_end_ns[-1])})
            write_lines(path, lines, FIELDS)
            print(f"{case}, seed {seed}, batch {batch}: {len(lines)} lines", file=sys.stderr)
    worst = path.with_suffix(".md")
    text, lost = markdown(lines)
    worst.write_text(text, encoding="utf-8")
    return int(lost > 0.002)


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--trace", type=Path, default=TRACE)
    options.add_argument("--predictors", type=Path, default=HERE.parent / ".cache", help="folder of them")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--fresh", action="store_true", help="start over")
    options.add_argument("--output", type=Path, default=HERE / "results")
    return options


def trace_of(case: str, recorded: Path) -> tuple[RoutingTrace, SequenceSplit]:
    """Routing of a case, and who trains on what."""
    if case == "full":
        trace = read_shared_trace(recorded)
        return trace, split_of(trace)
    trace = synthetic_trace(
        fitted_recipe("gptoss-20b"),
        model="coarse",
        layers=32,
        experts=8,
        top_k=2,
        sequences=60,
        prompt_tokens=0,
        decode_tokens=160,
        seed=0,
    )
    order = tuple(range(60))
    return trace, SequenceSplit(train=order[:40], validation=order[40:48], test=order[48:])


def markdown(lines: list[dict[str, Any]]) -> tuple[str, float]:
    """The table for people, and what ``expected`` by name loses in its worst cell."""
    sums: dict[tuple[str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    cells: dict[tuple[Any, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for line in lines:
        case = (line["case"], int(line["batch"]))
        sums[case][line["policy"]] += int(line["time_ns"])
        cell = (*case, *(float(line[name]) for name in FIELDS[3:6]))
        cells[cell][line["policy"]] += int(line["time_ns"])
    policies = [policy for policy in (*POLICIES, "expected by name") if policy != BASE]
    worst = {policy: max(one[policy] / one[BASE] - 1 for one in cells.values()) for policy in policies}
    seeds = len({int(line["seed"]) for line in lines})
    parts = [
        "# Coarse experts and full batches\n",
        "Made by `python benchmarks/uncertainty_cases.py` (do not edit); the docstring says what is run. "
        "Share of the clairvoyant gain over no prefetch, summed over "
        f"{seeds} seeds and {len(CELLS)} cells, simulated; in the last row "
        "what that gain is; in the last column the worst cell against no prefetch (negative: faster).\n",
        "| policy | " + " | ".join(f"{case}, batch {batch}" for case, batch in sums) + " | worst cell |",
        "| --- |" + " --- |" * (len(sums) + 1),
    ]
    for policy in policies:
        shares = [(one[BASE] - one[policy]) / (one[BASE] - one[CLAIRVOYANT]) for one in sums.values()]
        parts.append(
            f"| {policy} | " + " | ".join(f"{share:.3f}" for share in shares) + f" | {worst[policy]:+.2%} |"
        )
    gains = [one[CLAIRVOYANT] / one[BASE] - 1 for one in sums.values()]
    parts.append("| clairvoyant, time | " + " | ".join(f"{gain:+.2%}" for gain in gains) + " | |")
    return "\n".join(parts) + "\n", worst["expected by name"]


if __name__ == "__main__":
    sys.exit(main())
