"""Lower bounds of the compact models beside that of the programme over layers, on the whole library.

    python -m benchmarks.compact_bounds                      # all sets
    python -m benchmarks.compact_bounds --sets decode-b1     # some

Writes ``compact_bounds.csv`` and ``.md``. Bounds do not depend on the machine, times do.
"""

import argparse
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, median
from time import perf_counter_ns
from typing import Any

from benchmarks.csv_lines import write_lines
from prescope.formulation import Instance
from prescope.formulation.models.compact_model import Form
from prescope.instances import LibraryEntry, list_library, load_library_instance, load_library_plan
from prescope.solver import lower_bound, solve
from prescope.solver.exact.engine import EngineLimits
from prescope.solver.exact.engines import default_engine, get_engine
from prescope.solver.exact.export import linear_model_of
from prescope.solver.exact.first_plan import Start
from prescope.solver.methods.milp import Milp

# Instances with a larger gap are searched with cp-sat-table, for so much deterministic time.
OPEN = 1e-4
SEARCH = 2.0


def main() -> int:
    """Measure and write both files; 1 if a bound is above a stored plan."""
    options = parser().parse_args()
    lines = []
    for entry in list_library(sets=options.sets):
        if entry.steps is not None:
            continue  # a horizon: `prescope.solver.residency.horizon_bound` bounds it
        lines.append(measure(entry, load_library_instance(entry.name).instance))
        print(f"{entry.name}: {len(lines)}", file=sys.stderr)
    options.output.mkdir(parents=True, exist_ok=True)
    write_lines(options.output / "compact_bounds.csv", lines)
    (options.output / "compact_bounds.md").write_text(markdown(lines), encoding="utf-8")
    broken = [line["instance"] for line in lines if max(bounds_of(line)) > line["best_ns"]]
    for name in broken:
        print(f"a bound above the stored plan: {name}", file=sys.stderr)
    return 1 if broken else 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--sets", nargs="+", default=None)
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return options


def measure(entry: LibraryEntry, instance: Instance) -> dict[str, Any]:
    """Bounds and times of one instance; ``best_ns`` is that of the stored plan."""
    begin = perf_counter_ns()
    layers_ns = lower_bound(instance)
    line: dict[str, Any] = {
        "set": entry.set,
        "instance": entry.name,
        "layers": instance.layers,
        "lookahead": instance.lookahead,
        "slots": instance.slots,
        "best_ns": entry.best_ns,
        "layers_ns": layers_ns,
        "layers_time_ns": perf_counter_ns() - begin,
    }
    for form in Form:
        begin = perf_counter_ns()
        session = get_engine(default_engine()).open(linear_model_of(instance, form=form))
        answer = session.solve(EngineLimits(relax=True))
        session.close()
        line[f"{form.value}_ns"] = answer.bound
        line[f"{form.value}_time_ns"] = perf_counter_ns() - begin
    line |= {"search_ns": "", "search_makespan_ns": "", "search_work": ""}
    if entry.best_ns / max(layers_ns, 1) - 1 > OPEN:
        plan = load_library_plan(entry.name).plan
        method = Milp(engine="cp-sat", start=Start.HINT, deterministic_time=SEARCH)
        result = solve(instance, method=method, hint=plan)
        line["search_ns"] = result.statistics.proved_bound_ns
        line["search_makespan_ns"] = result.makespan_ns
        line["search_work"] = result.statistics.deterministic_time
    return line


def bounds_of(line: dict[str, Any]) -> tuple[int, ...]:
    """All bounds of a line."""
    return line["layers_ns"], line["fluid_ns"], line["table_ns"]


def markdown(lines: list[dict[str, Any]]) -> str:
    """Gaps of the stored plans to each bound, by set."""
    text = [
        "# Lower bounds: programme over layers, and linear relaxations of the compact models",
        "",
        "Made by `python -m benchmarks.compact_bounds`. Gap of the library's best stored plan to each "
        "bound, mean (max) in %; `sharper`: instances whose better relaxation beats the programme over "
        f"layers. Times: {platform.machine()}, {os.cpu_count()} cores, medians of single runs, the "
        "relaxations with building the model and proving the bound in whole numbers.",
        "",
        "| set | instances | lookahead | layers % | fluid LP % | table LP % | best of all % | sharper "
        "| layers ms | fluid ms | table ms |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        short = "short" if line["lookahead"] < line["layers"] else "from the start"
        groups.setdefault((line["set"], short), []).append(line)
    for (name, short), mine in sorted(groups.items()):
        cells = [name, str(len(mine)), short]
        for kind in ("layers", "fluid", "table"):
            cells.append(_gaps(line["best_ns"] / max(line[f"{kind}_ns"], 1) - 1 for line in mine))
        cells.append(_gaps(line["best_ns"] / max(*bounds_of(line), 1) - 1 for line in mine))
        cells.append(str(sum(max(line["fluid_ns"], line["table_ns"]) > line["layers_ns"] for line in mine)))
        for kind in ("layers", "fluid", "table"):
            cells.append(f"{median(line[f'{kind}_time_ns'] for line in mine) / 1e6:.1f}")
        text.append("| " + " | ".join(cells) + " |")
    return "\n".join([*text, *_searched(lines)]) + "\n"


def _searched(lines: list[dict[str, Any]]) -> list[str]:
    """What cp-sat-table makes of the instances with a gap."""
    searched = [line for line in lines if line["search_ns"] != ""]
    text = [
        "",
        f"## Search: `cp-sat-table` on the instances whose gap is above {OPEN:.2%}",
        "",
        f"From the stored plan, deterministic time {SEARCH:g} at most. `found`: how much shorter its plan is "
        "than the stored one; `left`: the better plan to the better bound.",
        "",
        "| instance | lookahead | slots | layers % | cp-sat-table % | found % | left % | det. time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for line in searched:
        best, found = line["best_ns"], min(line["best_ns"], line["search_makespan_ns"])
        bound = max(line["layers_ns"], line["search_ns"])
        cells = [line["instance"], line["lookahead"], line["slots"]]
        cells += [_percent(best / line["layers_ns"] - 1), _percent(best / line["search_ns"] - 1)]
        cells += [_percent(1 - found / best), _percent(found / bound - 1), f"{line['search_work']:.2f}"]
        text.append("| " + " | ".join(map(str, cells)) + " |")
    return text


def _percent(part: float) -> str:
    return f"{100 * part:.3f}"


def _gaps(values: Iterable[float]) -> str:
    gaps = [100 * value for value in values]
    return f"{mean(gaps):.3f} ({max(gaps):.3f})"


if __name__ == "__main__":
    sys.exit(main())
