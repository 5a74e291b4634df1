"""A plan as a view: one step, evaluated."""

from __future__ import annotations

from pathlib import Path

from prescope.formulation import evaluate
from prescope.inspection.view import StepView, View, ViewKind
from prescope.instances import InstanceFile, list_library, load_library_instance, read_instance, read_plan
from prescope.instances.recording import said_before


def plan_view(path: Path, instance: str | None) -> View:
    """View of a plan.

    Parameters
    ----------
    path
        The plan's file.
    instance
        Its instance: a file or a name in the library; the library's of the plan's name when ``None``.

    Raises
    ------
    ValueError
        When a file is not as it should be, the instance is not found, or is another than the plan's.
    """
    file = read_plan(path)
    problem = find_instance(instance or file.instance_name, asked=instance is not None)
    file.require_instance(problem.instance)
    info, schedule = file.plan.info, evaluate(problem.instance, file.plan)
    bound = info.lower_bound_ns
    return View(
        kind=ViewKind.PLAN,
        path=str(path),
        title=f"{problem.instance.name}, {info.method}",
        facts={
            "instance": problem.instance.name,
            "method": info.method,
            "makespan_ns": schedule.makespan_ns,
            "lower_bound_ns": bound,
            "gap": schedule.makespan_ns / bound - 1 if bound else None,
        },
        provenance={
            "costs": problem.instance.costs.source,
            "instance": problem.provenance.source,
            "plan": ", ".join(f"{name}={value}" for name, value in info.parameters) or info.method,
            "times": "planned: the exact evaluator's; nothing was executed",
        },
        steps=(
            StepView(
                name=problem.instance.name,
                schedules={"planned": schedule},
                instance=problem.instance,
                plan=file.plan,
                tokens=problem.instance.demand.batch_tokens,
                forecasts=said_before(problem.instance),
                notes={"instance": problem.instance.name, "method": info.method},
            ),
        ),
        instance=problem.instance,
    )


def find_instance(name: str, *, asked: bool) -> InstanceFile:
    """The instance file of that path, or the library's instance of that name.

    Parameters
    ----------
    name
        Path or name.
    asked
        Whether a person named it; else the plan did.

    Raises
    ------
    ValueError
        When there is neither; the message says what helps.
    """
    if asked and (Path(name).exists() or name.endswith((".json", ".json.gz"))):
        return read_instance(name)
    if any(entry.name == name for entry in list_library()):
        return load_library_instance(name)
    if asked:
        raise ValueError(
            f"expected an instance file or the name of a library instance, got {name!r}; "
            "`prescope instances list` shows the library"
        )
    raise ValueError(
        f"expected the instance {name!r} of this plan in the library, got none; name its file with --instance"
    )
