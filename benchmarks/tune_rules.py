"""The parameters of the reconstructed rules, chosen on validation batches.

``python -m benchmarks.tune_rules`` plays every rule with every setting of a small grid on synthetic batches
whose seeds no other benchmark and no library set uses, once with forecasts that are right and once with
emulated predictions, and writes ``benchmarks/results/tune_rules.csv`` and ``tune_rules.md``. The setting of
the smallest geometric mean of ``makespan / lower bound`` is the one to freeze in `prescope.solver.rules`; the
first of the grid, the source's own, stays unless another is better by more than 0.1 %. Simulated by the exact
evaluator, deterministic. Exit code 1 when a frozen default is not the chosen one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.csv_lines import write_lines
from benchmarks.paper_cells import MACHINES, MODELS, Setting, build
from prescope.formulation import Instance, makespan_ns, model_shape
from prescope.runtime.control import realise
from prescope.solver import lower_bound
from prescope.solver.online import GatePolicy
from prescope.solver.rules import Fate, Fiddler, FreeToken, HybriMoE, Klotski, play

SEEDS = (9000, 9001)
BATCHES = (4, 16, 64)
WORTH = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Settings of one rule, the source's own first; ``residents`` names those that are of the instance."""

    rule: Callable[..., GatePolicy]
    values: dict[str, tuple[Any, ...]]
    residents: tuple[str, ...] = ()

    def settings(self) -> Iterator[dict[str, Any]]:
        """All combinations."""
        for chosen in product(*self.values.values()):
            yield dict(zip(self.values, chosen, strict=True))


GRIDS = {
    "fiddler": Grid(rule=Fiddler, values={"load_weight": (1.0, 0.25, 0.35, 0.5, 0.7, 1.4, 2.0)}),
    "freetoken": Grid(
        rule=FreeToken,
        values={"adaptive": (False, True), "fraction_scale": (1.0, 0.5, 0.65, 0.8, 1.25, 1.5, 2.0)},
    ),
    # A quarter is what a token takes of Mixtral's experts, the paper's main model.
    "klotski": Grid(rule=Klotski, values={"hot_fraction": (0.25, 0.0625, 0.125, 0.5, 1.0)}),
    "fate": Grid(
        rule=Fate, values={"extra": (0, 1), "shallow_share": (0.0, 0.1, 0.2)}, residents=("shallow_share",)
    ),
    "hybrimoe": Grid(rule=HybriMoE, values={"depth": (3, 1, 2), "extra": (0, 1)}),
}


def main() -> int:
    """Play all settings, write both files, compare the choice with the defaults."""
    options = parser().parse_args()
    lines = []
    cells = [
        (Setting(model=model, machine=machine, batch=batch, memory=memory), prefill)
        for model in options.models
        for machine in MACHINES
        for memory in ("card", "quarter")
        for batch, prefill in [*((batch, False) for batch in BATCHES), (16, True)]
    ]
    for number, (cell, prefill) in enumerate(cells, start=1):
        for seed in options.seeds:
            lines += list(measure(cell, prefill, seed))
        print(f"{number}/{len(cells)} {cell.name}", file=sys.stderr)
    options.output.mkdir(parents=True, exist_ok=True)
    write_lines(options.output / "tune_rules.csv", lines)
    (options.output / "tune_rules.md").write_text(markdown(lines, options), encoding="utf-8")
    wrong = [rule for rule in GRIDS if not is_default(rule, chosen(rule, lines))]
    for rule in wrong:
        print(f"{rule}: the default is not {chosen(rule, lines)}", file=sys.stderr)
    return 1 if wrong else 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--models", nargs="+", default=MODELS)
    options.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return options


def measure(cell: Setting, prefill: bool, seed: int) -> Iterator[dict[str, Any]]:
    """Every rule and setting on one batch."""
    layers = model_shape(cell.model).moe_layers
    bounds: dict[int, tuple[Instance, int]] = {}

    def batch(full_layers: int) -> tuple[Instance, int]:
        if full_layers not in bounds:
            instance = build(cell, seed=seed, prefill=prefill, full_layers=full_layers)
            # One bound for all: another residency must not be judged by its own.
            bounds[full_layers] = instance, bounds[0][1] if bounds else lower_bound(instance)
        return bounds[full_layers]

    batch(0)
    for rule, grid in GRIDS.items():
        for setting in grid.settings():
            instance, bound_ns = batch(round(setting.get("shallow_share", 0.0) * layers))
            policy = grid.rule(**{key: value for key, value in setting.items() if key not in grid.residents})
            yield {
                "rule": rule,
                "setting": label(setting),
                "cell": instance.name,
                "known": round(makespan_ns(instance, play(instance, policy)) / bound_ns, 6),
                "predicted": round(makespan_ns(instance, realise(instance, policy)) / bound_ns, 6),
            }


def label(setting: dict[str, Any]) -> str:
    """A setting in a table."""
    return " ".join(f"{name}={value}" for name, value in setting.items())


def score(rule: str, setting: dict[str, Any], lines: list[dict[str, Any]], *fields: str) -> float:
    """Geometric mean over batches and the given fields."""
    mine = [line for line in lines if (line["rule"], line["setting"]) == (rule, label(setting))]
    return float(np.exp(fmean(np.log(line[name]) for line in mine for name in fields)))


def chosen(rule: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The setting to freeze."""
    settings = list(GRIDS[rule].settings())
    scores = [score(rule, setting, lines, "known", "predicted") for setting in settings]
    best = int(np.argmin(scores))
    return settings[0] if scores[0] <= scores[best] * (1 + WORTH) else settings[best]


def is_default(rule: str, setting: dict[str, Any]) -> bool:
    """Whether the rule is that without being told."""
    grid = GRIDS[rule]
    told = {key: value for key, value in setting.items() if key not in grid.residents}
    return grid.rule() == grid.rule(**told)


def markdown(lines: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The table."""
    batches = len({line["cell"] for line in lines})
    text = [
        "# Parameters of the reconstructed rules",
        "",
        "Made by `python -m benchmarks.tune_rules` (do not edit). Simulated by the exact evaluator on "
        f"{batches} synthetic batches of {', '.join(options.models)} on {' and '.join(MACHINES)}, decode and "
        f"prefill, two memory sizes, seeds {', '.join(map(str, options.seeds))}, which nothing else uses. "
        "Geometric means of makespan / lower bound of the batch; `known`: forecasts are right, `predicted`: "
        "emulated predictions. The first setting of a rule is the source's own; **bold** is chosen.",
        "",
        "| rule | setting | known | predicted |",
        "|---|---|---|---|",
    ]
    for rule, grid in GRIDS.items():
        best = chosen(rule, lines)
        for setting in grid.settings():
            mark = "**" if setting == best else ""
            known, predicted = (score(rule, setting, lines, name) for name in ("known", "predicted"))
            text.append(f"| {rule} | {mark}{label(setting)}{mark} | {known:.4f} | {predicted:.4f} |")
    return "\n".join([*text, ""])


if __name__ == "__main__":
    sys.exit(main())
