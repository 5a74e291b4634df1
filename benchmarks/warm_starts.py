"""What a start is worth: exact methods on consecutive decode batches, cold, hinted and patched.

    python -m benchmarks.warm_starts              # everything; a second call goes on where the first ended
    python -m benchmarks.warm_starts --report     # the table alone, from the CSV

Every chain plans consecutive decode steps of one recorded batch with one method and one kind of start:

- ``cold``: nothing is given to the solver;
- ``dp``: the dp plan of the same step;
- ``previous``: the plan of the step before, adapted;
- ``patched``: the same, and the model of the step before is patched instead of built.

The tiny model's trace comes with the package; that of gpt-oss-20b is used where ``../shared/traces`` has it.
Times need a quiet machine; makespans, bounds and deterministic times do not.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.csv_lines import read_lines, write_lines
from benchmarks.warm_start_table import markdown
from prescope.formulation import Instance
from prescope.instances import RoutingTrace, build_instances, read_trace
from prescope.instances.library_recipes.sources import TINY_COSTS, tiny_trace
from prescope.solver import Limits, Method, Resolver, Result, get_method, solve
from prescope.solver.exact.first_plan import Start

STARTS = {"cold": Start.NOTHING, "dp": Start.DP, "previous": Start.HINT, "patched": Start.HINT}
METHODS = ("milp", "cp-sat-table", "cp-sat")
BATCHES = (1, 4)
# The first decode steps of a sequence are not typical.
SKIP = 8
SHARED = Path(__file__).resolve().parents[2] / "shared" / "traces" / "gptoss_20b.npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """One batch's steps, planned one after another by one method from one kind of start."""

    trace: str
    batch: int
    method: str
    start: str


def main() -> int:
    """Run what is missing and write the table."""
    options = parser().parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "warm_starts.csv"
    if not options.report:
        run(path, options)
    rows = read_lines(path)
    (options.output / "warm_starts.md").write_text(markdown(rows), encoding="utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    options.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    options.add_argument(
        "--steps", type=int, default=5, help="consecutive decode steps, the first not counted"
    )
    options.add_argument("--slots", type=int, default=8)
    options.add_argument("--lookahead", type=int, default=4)
    options.add_argument("--deterministic-time", type=float, default=1.0, help="limit of cp-sat")
    options.add_argument("--seconds", type=float, default=5.0, help="limit of milp")
    options.add_argument("--report", action="store_true", help="only write the table")
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return options


def run(path: Path, options: argparse.Namespace) -> None:
    """Append the rows of every chain that is not complete."""
    rows = read_lines(path)
    for name, trace, costs in traces():
        for batch in options.batches:
            instances = steps(trace, costs, batch, options)
            for method in options.methods:
                for start in STARTS:
                    chain = Chain(trace=name, batch=batch, method=method, start=start)
                    done = [row for row in rows if of(row) == chain]
                    if len(done) == len(instances) - 1:
                        continue
                    # The plan and the model of the step before are gone: an incomplete chain starts over.
                    rows = [row for row in rows if of(row) != chain]
                    rows += list(plan_chain(chain, instances, options))
                    write_lines(path, rows)
                    print(f"{name} batch {batch} {method} {start}: {len(rows)} rows", file=sys.stderr)


def traces() -> Iterator[tuple[str, RoutingTrace, str]]:
    """Recorded routing and the costs to plan it with."""
    yield "tiny", tiny_trace(), f"{TINY_COSTS}@a100-pcie4"
    if SHARED.is_file():
        yield "gpt-oss-20b", read_trace(SHARED), "gpt-oss-20b@a100-pcie4"


def steps(trace: RoutingTrace, costs: str, batch: int, options: argparse.Namespace) -> list[Instance]:
    """Consecutive decode steps of the first sequences."""
    files = build_instances(
        trace,
        costs,
        batch,
        slots=options.slots,
        lookahead=options.lookahead,
        sequences=range(batch),
        limit=SKIP + options.steps,
    )
    return [file.instance for file in files[SKIP:]]


def settings(chain: Chain) -> Method:
    """The method with the chain's start, left to prove everything itself."""
    method: Any = get_method(chain.method)
    return replace(method, start=STARTS[chain.start], known_bound=False)  # type: ignore[no-any-return]


def plan_chain(
    chain: Chain, instances: list[Instance], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Plan the steps in order."""
    method = settings(chain)
    limits = Limits(
        deterministic_time=options.deterministic_time,
        wall_ns=round(options.seconds * 1e9) if chain.method == "milp" else None,
    )
    # The step before the first: planned by dp, as every chain begins alike; it also loads compiled code.
    previous: Result = solve(instances[0])
    resolver = Resolver(method)
    solve(instances[0], method=method, limits=limits, hint=previous)
    if chain.start == "patched":
        resolver.solve(instances[0], limits=limits, hint=previous)
    for number, instance in enumerate(instances[1:], start=1):
        hint = previous if chain.start in ("previous", "patched") else None
        if chain.start == "patched":
            result = resolver.solve(instance, limits=limits, hint=hint)
        else:
            result = solve(instance, method=method, limits=limits, hint=hint)
        yield row_of(chain, number, len(instances), instance, result)
        if result.plan is not None:
            previous = result


def row_of(chain: Chain, step: int, steps_in_all: int, instance: Instance, result: Result) -> dict[str, Any]:
    """Everything one solve says about itself."""
    statistics, changes = result.statistics, result.statistics.hint_changes
    return {
        "trace": chain.trace,
        "batch": chain.batch,
        "method": chain.method,
        "start": chain.start,
        "step": step,
        "steps": steps_in_all,
        "instance": instance.name,
        "hint": statistics.hint.value,
        "kept": "" if changes is None else changes.kept,
        "dropped": "" if changes is None else changes.dropped,
        "placed": "" if changes is None else changes.placed,
        "hint_makespan_ns": text(statistics.hint_makespan_ns),
        "start_makespan_ns": text(statistics.start_makespan_ns),
        "start_accepted": text(statistics.start_accepted),
        "patched": text(statistics.patched),
        "rebuilt": "" if statistics.rebuilt is None else statistics.rebuilt.value,
        "model_ns": text(statistics.model_time_ns),
        "makespan_ns": text(result.makespan_ns),
        "lower_bound_ns": result.lower_bound_ns,
        "own_bound_ns": text(statistics.proved_bound_ns),
        "time_ns": result.time_ns,
        "deterministic_time": text(statistics.deterministic_time),
        "incumbents": " ".join(
            f"{one.time_ns}:{one.makespan_ns}:{text(one.deterministic_time)}" for one in result.incumbents
        ),
        "bounds": " ".join(
            f"{one.time_ns}:{one.lower_bound_ns}:{text(one.deterministic_time)}" for one in result.bounds
        ),
    }


def text(value: Any) -> str:
    """A value for the CSV; nothing for ``None``."""
    return "" if value is None else str(value)


def of(row: dict[str, Any]) -> Chain:
    """The chain a row belongs to."""
    return Chain(trace=row["trace"], batch=int(row["batch"]), method=row["method"], start=row["start"])


if __name__ == "__main__":
    sys.exit(main())
