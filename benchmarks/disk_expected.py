"""Policies, residency rules and bad predictors on the disk tier, on recorded routing, simulated.

    python -m benchmarks.disk_expected --split validation --seeds 2
    python -m benchmarks.disk_expected
    python -m benchmarks.disk_expected --split choice --seeds 2
    python -m benchmarks.disk_expected --split fresh

Decode routing of gpt-oss-20b (``../shared/traces``; without it there is nothing to do) with the forecasts of
the routing-only predictor, as in ``uncertainty.py``: trained on 48 sequences, calibrated on 12 (validation),
judged on the other 28. All experts are on disk, a pool of rows holds 10, 25 or 50 % of them, and nothing is
computed but on the one device. Steps follow each other over one pool that is empty at first; the first
``--warm`` of them are not counted. A step begins without reads from the step before it.

The last two have the good and the bad predictors alone. The guard was chosen on ``choice``: a predictor
trained on the 28, judged on 20 of the 48, as it looks better than it is on the sequences that calibrate it.
Nothing about the guard was chosen on ``fresh``: as in ``guard.py``, the other 28 of the 48.

Two sets of costs: *machine*, a virtual machine of 2 cores and its disk, as measured; and *nvme*, the preset
gpt-oss-20b@nvme-ram, whose constants are assumed. Times are those of the control's clock, which the tests
hold to the exact evaluator; nothing here is executed.

Lines grow in ``benchmarks/results/disk_expected.csv``, by seed and batch; ``disk_expected.md`` has the
tables.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.csv_lines import read_lines, write_lines
from benchmarks.disk_expected_steps import (
    Decode,
    LearnedDistance,
    NextUse,
    Way,
    quiet_machine_costs,
    simulate,
    spoiled,
)
from prescope.formulation import CostModel, preset
from prescope.formulation.demand import FloatArray
from prescope.instances import popularity
from prescope.predictor.split import SequenceSplit
from prescope.runtime.control.read_rules import EXPECTED, ReadRules
from prescope.runtime.control.residency import Residency, make_residency
from prescope.solver.online import ExpectedPolicy, make_gate_policy
from prescope.solver.residency import Learned, OutlookSums, fit_outlook

HERE = Path(__file__).parent
TRACE = HERE.parents[1] / "shared" / "traces" / "gptoss_20b.npz"
BATCHES = (1, 4, 8, 32)
MEMORIES = (10, 25, 50)
RESIDENCIES = ("static", "lru", "moving-average", "mixed-average", "learned")
SWEPT = "mixed-average"
KINDS = ("good", "wrong", "late", "shifted", "uniform", "over-confident", "under-confident")
GUARD_WARM, GUARD_STEPS = 20, 50
OPEN = ReadRules(least=EXPECTED.least, planned=True, spread=EXPECTED.spread)
PREDICTORS = {
    "test": "uncertainty_predictor",
    "validation": "uncertainty_predictor",
    "choice": "disk_choice_predictor",
    "fresh": "guard_predictor",
}
GUARD_ALONE = ("choice", "fresh")
NONE = Way(policy=make_gate_policy("on-demand"), lookahead=1)
SHIPPED = "expected"
CLAIRVOYANT = "clairvoyant"
WAYS = {
    "none": NONE,
    "presched": Way(policy=make_gate_policy("presched"), lookahead=1),
    **{f"dp w={ahead}": Way(policy=make_gate_policy("dp"), lookahead=ahead) for ahead in (2, 3, 4, 6)},
    SHIPPED: Way(policy=ExpectedPolicy(guard=0.5), lookahead=2, rules=EXPECTED),
    **{
        f"expected w={ahead}, no guard": Way(policy=ExpectedPolicy(), lookahead=ahead, rules=OPEN)
        for ahead in (1, 2, 3, 4, 5, 6)
    },
}
ELSEWHERE = ("none", "presched", "dp w=2", SHIPPED)
# Told the truth: what is sure is read whatever it costs in room, and no variance is left.
KNOWING = Way(
    policy=ExpectedPolicy(ahead=12),
    lookahead=12,
    rules=ReadRules(least=0.01, planned=True, spread=0.0),
)
FIELDS = (
    "split", "seed", "batch", "costs", "memory", "predictor", "residency", "policy", "time_ns", "reads",
    "ahead",
)  # fmt: skip


def main() -> int:
    """Run what is missing and write both files; 1 when a bad predictor costs more than 2 %."""
    from benchmarks.disk_expected_report import markdown, worst_of_kinds

    options = parser().parse_args()
    if not options.trace.exists():
        print(f"nothing to do: no trace {options.trace}", file=sys.stderr)
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"disk_expected{'' if options.split == 'test' else '_' + options.split}.csv"
    lines = read_lines(path, fresh=options.fresh)
    study = Study(options)
    for seed, batch in product(range(options.seeds), options.batches):
        if any((int(line["seed"]), int(line["batch"])) == (seed, batch) for line in lines):
            continue
        lines += [
            {"split": options.split, "seed": seed, "batch": batch, **line} for line in study.run(seed, batch)
        ]
        write_lines(path, lines, FIELDS)
        print(f"seed {seed} batch {batch}: {len(lines)} lines", file=sys.stderr)
    path.with_suffix(".md").write_text(markdown(lines, options), encoding="utf-8")
    return int(any(worst > 0.02 for _, worst in worst_of_kinds(lines).values()))


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--trace", type=Path, default=TRACE)
    options.add_argument("--predictor", type=Path, help="folder of the trained one, by default of the split")
    options.add_argument("--split", choices=tuple(PREDICTORS), default="test")
    options.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--steps", type=int, default=30)
    options.add_argument("--warm", type=int, default=10, help="first steps, which are not counted")
    options.add_argument("--fresh", action="store_true", help="start over")
    options.add_argument("--output", type=Path, default=HERE / "results")
    return options


class Study:
    """What all seeds share."""

    def __init__(self, options: argparse.Namespace) -> None:
        # They lie beside this file and are scripts of their own.
        sys.path.append(str(HERE))
        from residency import decoded, rows_of
        from uncertainty_steps import fresh_split_of, predictor_of, read_shared_trace, split_of

        self._options = options
        self._trace = read_shared_trace(options.trace)
        split = split_of(self._trace)
        fresh = fresh_split_of(self._trace)
        if options.split == "fresh":
            split = fresh
        elif options.split == "choice":
            rest = tuple(one for one in split.train if one not in fresh.test)
            split = SequenceSplit(train=split.test, validation=split.validation, test=rest)
        self._sequences = split.validation if options.split == "validation" else split.test
        folder = options.predictor or HERE.parent / ".cache" / PREDICTORS[options.split]
        self._model = predictor_of(self._trace, folder, split)
        self._shape = (self._trace.layers, self._trace.meta.experts)
        rows = np.concatenate([rows_of(self._trace, one) for one in split.train])
        shares = popularity(self._trace, rows=rows)
        self._token_use: FloatArray = self._trace.meta.top_k * shares / shares.sum(axis=1, keepdims=True)
        self._outlook: OutlookSums = fit_outlook(
            (decoded(self._trace, one) for one in split.train), self._token_use
        )
        self._costs: dict[str, CostModel] = {
            "machine": quiet_machine_costs(self._trace.layers),
            "nvme": preset("gpt-oss-20b@nvme-ram", layers=self._trace.layers).costs,
        }

    def run(self, seed: int, batch: int) -> Iterator[dict[str, Any]]:
        """All lines of one draw."""
        longer = self._draw(seed, batch)
        if self._options.split not in GUARD_ALONE:
            yield from self._shares(longer)
        for name, memory in product(self._costs, MEMORIES):
            yield from self._guard(longer, seed, name, memory)

    def _shares(self, longer: Decode) -> Iterator[dict[str, Any]]:
        decode = longer.first(self._options.steps)
        known = decode.known()
        for (name, costs), memory in product(self._costs.items(), MEMORIES):
            place = {"costs": name, "memory": memory, "predictor": "good"}
            for residency in RESIDENCIES:
                for policy in WAYS if residency == SWEPT else ELSEWHERE:
                    yield self._line(
                        place, decode, costs, residency, policy, WAYS[policy], self._options.warm
                    )
                yield self._line(place, known, costs, residency, CLAIRVOYANT, KNOWING, self._options.warm)
            yield self._line(place, decode, costs, "belady", "none", NONE, self._options.warm)
            yield self._line(place, known, costs, "belady", CLAIRVOYANT, KNOWING, self._options.warm)

    def _guard(self, longer: Decode, seed: int, name: str, memory: int) -> Iterator[dict[str, Any]]:
        costs = self._costs[name]
        place = {"costs": name, "memory": memory, "predictor": "any, long"}
        yield self._line(place, longer, costs, SWEPT, "none", NONE, GUARD_WARM)
        for kind in KINDS:
            place = {**place, "predictor": f"{kind}, long"}
            bad = spoiled(longer, kind, seed)
            yield self._line(place, bad, costs, SWEPT, SHIPPED, WAYS[SHIPPED], GUARD_WARM)
            if kind == "good":
                unwatched = "expected w=2, no guard"
                yield self._line(place, bad, costs, SWEPT, unwatched, WAYS[unwatched], GUARD_WARM)

    def _line(
        self,
        place: dict[str, Any],
        decode: Decode,
        costs: CostModel,
        residency: str,
        policy: str,
        way: Way,
        warm: int,
    ) -> dict[str, Any]:
        rows = self._shape[0] * self._shape[1] * place["memory"] // 100
        times = simulate(decode, costs, self._residency(residency, decode, rows), rows, way)
        return {
            **place,
            "residency": residency,
            "policy": policy,
            "time_ns": int(times.step_ns[warm:].sum()),
            "reads": int(times.reads[warm:].sum()),
            "ahead": int(times.ahead[warm:].sum()),
        }

    def _draw(self, seed: int, batch: int) -> Decode:
        from uncertainty_steps import draw_steps

        drawn = draw_steps(
            self._trace, self._model, self._sequences, batch=batch, seed=seed, windows=1, window=GUARD_STEPS
        )
        shape = (GUARD_STEPS, *self._shape)
        return Decode(
            counts=drawn.counts.reshape(shape),
            probabilities=drawn.probabilities.reshape(-1, *shape),
            expected_tokens=drawn.expected_tokens.reshape(-1, *shape),
            tokens=batch,
        )

    def _residency(self, name: str, decode: Decode, rows: int) -> Residency:
        if name == "belady":
            return NextUse(decode.counts)
        if name == "learned":
            learned = Learned(self._token_use, self._outlook, fixed_ns=1.0, per_token_ns=0.0)
            return LearnedDistance(learned, decode.tokens, self._shape)
        step_use = 1.0 - (1.0 - np.clip(self._token_use, 0.0, 1.0)) ** decode.tokens
        return make_residency(name, step_use, rows=rows, scratch=min(8, max(1, rows // 4)))


if __name__ == "__main__":
    sys.exit(main())
