"""Whether a cost file is still true here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from prescope.doctor.finding import Finding, State
from prescope.instances import CostProvenance, MachineDescription

_AREA = "costs"
_OLD_DAYS = 30
_MEASURE = "measure again on the idle machine: prescope profile MODEL -o FILE"


def examine_costs(
    file: Path | None, *, expected: Path, today: date, here: MachineDescription
) -> Iterator[Finding]:
    """Read a cost file and judge its age, its machine and its care.

    Parameters
    ----------
    file
        The file; ``None`` when nobody named one, then ``expected`` is looked for.
    expected
        Where a cost file would be found without being named.
    today, here
        To compare with.

    Raises
    ------
    ValueError
        When the file is none.
    """
    from prescope.instances import read_costs

    if file is None and not expected.is_file():
        yield Finding(
            area=_AREA,
            name="cost file",
            state=State.DEGRADED,
            found=f"none at {expected}",
            effect="plans use assumed costs of published machines",
            remedy=f"prescope profile MODEL -o {expected}",
        )
        return
    provenance = read_costs(file or expected).provenance
    yield judge_age(provenance, today)
    yield judge_machine(provenance.machine, here)
    yield judge_care(provenance)


def judge_age(provenance: CostProvenance, today: date) -> Finding:
    """Judge how long ago it was measured."""
    days = (today - date.fromisoformat(provenance.measured_on)).days
    found = f"measured {provenance.measured_on}, {days} day(s) ago"
    if 0 <= days <= _OLD_DAYS:
        return Finding(area=_AREA, name="age", state=State.OK, found=found)
    return Finding(
        area=_AREA,
        name="age",
        state=State.DEGRADED,
        found=found,
        effect="drivers, kernels and packages have changed since" if days > 0 else "a clock is or was wrong",
        remedy=_MEASURE,
    )


def judge_machine(measured: MachineDescription, here: MachineDescription) -> Finding:
    """Judge whether it was measured on a machine like this."""
    names = ("system", "architecture", "cores", "python", "torch", "transformers")
    other = [
        f"{name} {getattr(measured, name)}, here {getattr(here, name)}"
        for name in names
        if getattr(measured, name) != getattr(here, name)
    ]
    if not other:
        return Finding(area=_AREA, name="machine", state=State.OK, found=measured.describe())
    return Finding(
        area=_AREA,
        name="machine",
        state=State.DEGRADED,
        found="; ".join(other),
        effect="planned times are those of another machine",
        remedy=_MEASURE,
    )


def judge_care(provenance: CostProvenance) -> Finding:
    """Judge how it was measured: the short programme, reads through the page cache, notes."""
    faults = ["the short programme (--quick)"] if provenance.quick else []
    if provenance.direct is False:
        faults.append("reads through the page cache")
    if provenance.notes:
        faults.append(provenance.notes)
    if not faults:
        return Finding(area=_AREA, name="care", state=State.OK, found="the full programme, nothing to note")
    return Finding(
        area=_AREA,
        name="care",
        state=State.DEGRADED,
        found="; ".join(faults),
        effect="planned times are less exact",
        remedy=_MEASURE,
    )
