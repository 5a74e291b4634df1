"""What ``prescope instances verify`` does and says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING

from prescope.commands.output import console, print_json, progress_console

if TYPE_CHECKING:
    from prescope.library_check import EntryCheck

_EVERY = 25


def check_named(
    instances: Sequence[str] | None, *, sets: Sequence[str] | None, proofs: bool, jobs: int
) -> tuple[EntryCheck, ...]:
    """Check the library, or the files and library instances named.

    Raises
    ------
    ValueError
        When names and sets are both given, or one does not exist.
    """
    from prescope.instances import list_library
    from prescope.library_check import check_library

    if instances and sets:
        raise ValueError(f"expected instances or --set, got both: {instances[0]!r} and {sets[0]!r}")
    if not instances:
        return check_library(sets=sets or None, proofs=proofs, jobs=jobs, progress=_report())
    known = {entry.name for entry in list_library()}
    named = [name for name in instances if name in known]
    checks = [_check_file(name) for name in instances if name not in known]
    if named:
        checks += check_library(names=named, proofs=proofs, jobs=jobs, progress=_report())
    return tuple(checks)


def print_checks(checks: Sequence[EntryCheck], *, as_json: bool) -> None:
    """Write the answer to stdout."""
    problems = [
        {"name": check.name, "problem": check.problem} for check in checks if check.problem is not None
    ]
    provers: dict[str, int] = {}
    for check in checks:
        if check.proved_by is not None:
            provers[check.proved_by] = provers.get(check.proved_by, 0) + 1
    if as_json:
        proved = [{"by": by, "instances": count} for by, count in sorted(provers.items())]
        print_json({"checked": len(checks), "proved": proved, "problems": problems})
        return
    for entry in problems:
        console().print(f"{entry['name']}: {entry['problem']}", markup=False, soft_wrap=True)
    for by, count in sorted(provers.items()):
        console().print(f"{count} bounds proved again by {by}", markup=False, soft_wrap=True)
    console().print(f"{len(checks)} checked, {len(problems)} problems", markup=False)


def _check_file(name: str) -> EntryCheck:
    from prescope.commands.sources import open_problem
    from prescope.library_check import EntryCheck

    begin, problem = perf_counter_ns(), None
    try:
        open_problem(name)
    except ValueError as error:
        problem = str(error)
    return EntryCheck(name=name, set="", problem=problem, proved_by=None, time_ns=perf_counter_ns() - begin)


def _report() -> Callable[[int, int, EntryCheck], None]:
    stderr, begin = progress_console(), perf_counter_ns()

    def report(done: int, total: int, check: EntryCheck) -> None:
        if check.problem is not None or done % _EVERY == 0 or done == total:
            seconds = (perf_counter_ns() - begin) / 1e9
            verdict = "ok" if check.problem is None else "PROBLEM"
            line = f"[{seconds:6.1f} s] {done} of {total}, {check.name}: {verdict}"
            stderr.print(line, markup=False, soft_wrap=True)

    return report
