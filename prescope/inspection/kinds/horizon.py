"""Several steps in a row as a view, with and without a plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prescope.formulation import evaluate
from prescope.formulation.horizon import Horizon
from prescope.formulation.horizon_evaluator import evaluate_horizon, link_left_ns
from prescope.inspection.view import LayerMap, StepView, View, ViewKind, ViewTable
from prescope.instances import HorizonFile, list_library, load_library_horizon, read_horizon
from prescope.instances.horizon_plan_file import read_horizon_plan
from prescope.instances.recording import said_before


def horizon_view(path: Path) -> View:
    """View of a horizon; raises `InstanceFileError` like `read_horizon`."""
    return horizon_file_view(str(path), read_horizon(path))


def horizon_file_view(path: str, file: HorizonFile) -> View:
    """View of a horizon that was read from there."""
    horizon = file.horizon
    counts = [demand.counts for demand in horizon.demands]
    active = [demand > 0 for demand in counts]
    pairs = zip(active, active[1:], strict=False)
    kept = [None, *(float((before & now).sum() / max(now.sum(), 1)) for before, now in pairs)]
    return View(
        kind=ViewKind.HORIZON,
        path=path,
        title=horizon.name,
        facts=_facts(horizon),
        provenance={
            "costs": horizon.costs.source,
            "source": file.provenance.source,
            "made by": f"{file.provenance.generator or 'hand'} ({file.provenance.created_by})",
        },
        tables=(
            ViewTable(
                title="steps",
                columns=("step", "tokens", "activated", "as_in_the_step_before_share"),
                rows=tuple(
                    (step, horizon.demands[step].batch_tokens, int(mask.sum()), kept[step])
                    for step, mask in enumerate(active)
                ),
            ),
        ),
        maps=(
            LayerMap(
                name="tokens",
                about="tokens that each expert gets in all steps",
                values=np.sum(counts, axis=0).astype(np.float64),
            ),
        ),
    )


def horizon_plan_view(path: Path, horizon: str | None) -> View:
    """View of a horizon's plan.

    Parameters
    ----------
    path
        The plan's file.
    horizon
        Its horizon: a file or a name in the library; the library's of the plan's name when ``None``.

    Raises
    ------
    ValueError
        When a file is not as it should be, the horizon is not found, or is another than the plan's.
    """
    file = read_horizon_plan(path)
    problem = _find_horizon(horizon or file.horizon_name, path, asked=horizon is not None).horizon
    file.require_horizon(problem)
    total = evaluate_horizon(problem, file.plan)
    steps = []
    link_ready_ns = 0
    for number, (plan, residents) in enumerate(zip(file.plan.plans, file.plan.residents, strict=True)):
        instance = problem.instance(number, residents, link_ready_ns)
        schedule = evaluate(instance, plan)
        link_ready_ns = link_left_ns(schedule)
        steps.append(
            StepView(
                index=number,
                name=f"step {number}",
                schedules={"planned": schedule},
                instance=instance,
                plan=plan,
                tokens=instance.demand.batch_tokens,
                forecasts=said_before(instance),
            )
        )
    return View(
        kind=ViewKind.HORIZON_PLAN,
        path=str(path),
        title=f"{problem.name}, {file.plan.method}",
        facts={
            **_facts(problem),
            "method": file.plan.method,
            "planned_ns": total.total_ns,
            "copied_bytes": total.copied_bytes,
            "hits_share": total.hits / total.uses if total.uses else None,
        },
        provenance={
            "costs": problem.costs.source,
            "times": "planned: the exact evaluator's; nothing was executed",
        },
        steps=tuple(steps),
    )


def _find_horizon(name: str, plan: Path, *, asked: bool) -> HorizonFile:
    if asked and (Path(name).exists() or name.endswith((".json", ".json.gz"))):
        return read_horizon(name)
    if any(entry.name == name and entry.steps is not None for entry in list_library()):
        return load_library_horizon(name)
    if asked:
        raise ValueError(
            f"expected a horizon's file or the name of one in the library, got {name!r}; "
            "`prescope instances list` shows the library"
        )
    raise ValueError(
        f"{plan}: expected the horizon {name!r} of this plan in the library, got none; "
        "name its file with --instance"
    )


def _facts(horizon: Horizon) -> dict[str, str | int | float | bool | None]:
    return {
        "horizon": horizon.name,
        "steps": horizon.steps,
        "layers": horizon.layers,
        "experts": horizon.experts,
        "tokens": sum(demand.batch_tokens for demand in horizon.demands),
        "residents": sum(map(len, horizon.residents)),
        "slots": horizon.slots,
        "lookahead": horizon.lookahead,
        "tier": horizon.tier.value,
        "host_computes": horizon.host_computes,
    }
