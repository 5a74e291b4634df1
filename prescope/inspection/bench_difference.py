"""Two benchmark results: which plans became shorter or longer, run by run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prescope.bench import BenchRow


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDifference:
    """One method on one set.

    Parameters
    ----------
    set, before, after
        The set, and the method in both.
    runs
        Runs that both have a plan of.
    shorter, longer
        Of those, plans that became shorter, and longer.
    ratio
        Geometric mean of makespan by makespan; below 1 the second is faster. ``None`` without runs.
    worst
        Largest ratio.
    worst_instance
        Where.
    lost, gained
        Runs whose plan only the first, or only the second has.
    before_plan_ns, after_plan_ns
        Median time to plan; it depends on the machine and is never judged.
    """

    set: str
    before: str
    after: str
    runs: int
    shorter: int
    longer: int
    ratio: float | None
    worst: float | None
    worst_instance: str
    lost: int
    gained: int
    before_plan_ns: int | None
    after_plan_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchDifference:
    """All groups, and the geometric mean over all runs; ``None`` without any."""

    groups: tuple[GroupDifference, ...]
    ratio: float | None
    notices: tuple[str, ...]

    def slower(self, most: float) -> bool:
        """Whether the second is slower by more than this share; a plan that it lost takes forever."""
        lost = any(group.lost for group in self.groups)
        return lost or (self.ratio is not None and self.ratio > 1 + most)


def bench_difference(before: Path, after: Path) -> BenchDifference:
    """Compare two folders of ``prescope bench``, or their ``runs.csv``.

    Runs are compared with those of the same instance, method, limit and seed; where each side has a single
    method, with that whatever its name.

    Raises
    ------
    ValueError
        When a folder holds no results, they have no run in common, or an instance of one name is not the same
        in both.
    """
    from prescope.bench import read_rows

    sides = [read_rows(path if path.is_dir() else path.parent) for path in (before, after)]
    one_each = all(len({(row.method, row.limit) for row in rows}) == 1 for rows in sides)
    key = _by_instance if one_each else _by_run
    first, second = ({key(row): row for row in rows} for rows in sides)
    common = [run for run in first if run in second]
    if not common:
        raise ValueError(
            f"expected runs of the same instance, method, limit and seed in both, got none in common: "
            f"{_methods(sides[0])} in {before}, {_methods(sides[1])} in {after}"
        )
    for run in common:
        if first[run].instance_sha256 != second[run].instance_sha256:
            raise ValueError(
                f"expected the same instance {first[run].instance!r} in both, got another content "
                f"in {after} than in {before}"
            )
    groups: dict[tuple[str, str, str], list[tuple[BenchRow, BenchRow]]] = {}
    for run in common:
        pair = first[run], second[run]
        groups.setdefault((pair[0].set, _label(pair[0]), _label(pair[1])), []).append(pair)
    left_out = [
        f"{len(rows) - len(common)} runs that only {path} has are left out"
        for rows, path in zip(sides, (before, after), strict=True)
        if len(rows) > len(common)
    ]
    found = [_ratio(*pair) for pairs in groups.values() for pair in pairs]
    parts = tuple(_group(name, pairs) for name, pairs in groups.items())
    lost = sum(group.lost for group in parts)
    if lost:
        left_out.append(f"{lost} runs of which only {before} has a plan: that counts as slower")
    return BenchDifference(
        groups=parts,
        ratio=_mean([ratio for ratio in found if ratio is not None]),
        notices=tuple(left_out),
    )


def _group(name: tuple[str, str, str], pairs: list[tuple[BenchRow, BenchRow]]) -> GroupDifference:
    found = [(ratio, pair[0].instance) for pair in pairs if (ratio := _ratio(*pair)) is not None]
    every = [ratio for ratio, _ in found]
    worst, worst_instance = max(found, key=lambda one: one[0], default=(None, ""))
    return GroupDifference(
        set=name[0],
        before=name[1],
        after=name[2],
        runs=len(every),
        shorter=sum(ratio < 1 for ratio in every),
        longer=sum(ratio > 1 for ratio in every),
        ratio=_mean(every),
        worst=worst,
        worst_instance=worst_instance,
        lost=sum(a.makespan_ns is not None and b.makespan_ns is None for a, b in pairs),
        gained=sum(a.makespan_ns is None and b.makespan_ns is not None for a, b in pairs),
        before_plan_ns=_median([a.plan_time_ns for a, _ in pairs if a.plan_time_ns is not None]),
        after_plan_ns=_median([b.plan_time_ns for _, b in pairs if b.plan_time_ns is not None]),
    )


def _ratio(before: BenchRow, after: BenchRow) -> float | None:
    if before.makespan_ns is None or after.makespan_ns is None:
        return None
    # A makespan of 0 is that of a step without work.
    return max(after.makespan_ns, 1) / max(before.makespan_ns, 1)


def _mean(ratios: Sequence[float]) -> float | None:
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else None


def _median(times: Sequence[int]) -> int | None:
    return sorted(times)[len(times) // 2] if times else None


def _by_instance(row: BenchRow) -> tuple[object, ...]:
    return row.instance, row.seed


def _by_run(row: BenchRow) -> tuple[object, ...]:
    return tuple(row.key)


def _label(row: BenchRow) -> str:
    from prescope.bench.summary import label

    return label(row)


def _methods(rows: Sequence[BenchRow]) -> str:
    return ", ".join(sorted({_label(row) for row in rows}))
