"""Everything the doctor looks at, in order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from prescope.doctor.finding import Finding


def examine(folder: Path, *, costs: Path | None = None) -> Iterator[Finding]:
    """Examine this environment.

    Parameters
    ----------
    folder
        Of the model, or any on the disk that its experts would be read from.
    costs
        A cost file; by default the one in the folder, if there is one.

    Raises
    ------
    ValueError
        When the folder does not exist, or the cost file is none.
    """
    from prescope.doctor.costs import examine_costs
    from prescope.doctor.device import examine_device
    from prescope.doctor.disk import examine_disk
    from prescope.doctor.memory import examine_memory
    from prescope.doctor.processor import examine_processor
    from prescope.doctor.versions import examine_versions
    from prescope.instances.cost_file import COSTS_NAME
    from prescope.runtime.profile.machine import this_machine

    yield from examine_versions()
    yield from examine_device()
    yield from examine_memory()
    yield from examine_processor()
    yield from examine_disk(folder)
    yield from examine_costs(costs, expected=folder / COSTS_NAME, today=date.today(), here=this_machine())
