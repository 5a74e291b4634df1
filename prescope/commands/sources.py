"""Finding what the user names: an instance by file or by name in the library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prescope.instances import HorizonFile, InstanceFile, PlanFile


def open_instance(name: str) -> InstanceFile:
    """Read an instance file, or take the instance of that name from the library.

    Raises
    ------
    ValueError
        When there is neither; the message says how to list what there is.
    """
    from prescope.instances import list_library, load_library_instance, read_instance

    if Path(name).exists() or name.endswith((".json", ".json.gz")):
        return read_instance(name)
    if any(entry.name == name for entry in list_library()):
        return load_library_instance(name)
    raise ValueError(
        f"expected an instance file or the name of a library instance, got {name!r}; "
        "`prescope instances list` shows the library"
    )


def open_problem(name: str) -> InstanceFile | HorizonFile:
    """Read an instance or horizon file, or take what has that name from the library.

    Raises
    ------
    ValueError
        When there is neither; the message says how to list what there is.
    """
    from prescope.instances import file_format, list_library, load_library_horizon, read_horizon

    if Path(name).exists() or name.endswith((".json", ".json.gz")):
        return read_horizon(name) if file_format(name) == "prescope-horizon" else open_instance(name)
    if any(entry.name == name and entry.steps is not None for entry in list_library()):
        return load_library_horizon(name)
    return open_instance(name)


def instance_of(plan: PlanFile, name: str | None) -> InstanceFile:
    """The instance a plan is for: the one named, else the library's of that name.

    Raises
    ------
    ValueError
        When it cannot be found or is another one than the plan's.
    """
    try:
        file = open_instance(name or plan.instance_name)
    except ValueError as error:
        if name is not None:
            raise
        raise ValueError(
            f"expected the instance {plan.instance_name!r} of this plan in the library, got none; "
            "name its file with --instance"
        ) from error
    plan.require_instance(file.instance)
    return file
