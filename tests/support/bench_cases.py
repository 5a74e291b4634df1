"""A small library and small sweeps, the same for every test of the benchmark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from prescope.bench import Case
from prescope.formulation import Instance, Plan, PredictedDemand
from prescope.instances import InstanceFile, Provenance, instance_digest, synthetic_instance, write_instance
from prescope.solver import solve


def instance(batch: int = 1, *, name: str = "one", seed: int = 0) -> Instance:
    """Mixtral's shape: 32 layers of 8 experts, planned in no time."""
    return synthetic_instance("mixtral-8x7b", "lab", batch, seed, name=name)


def foretold(known: Instance, *, name: str) -> Instance:
    """The same with a prediction that is right about most experts."""
    expected = known.demand.counts[None].astype(np.float64)
    expected[:, ::3] = 0.0
    predicted = PredictedDemand(
        probabilities=np.minimum(expected, 1.0), expected_tokens=expected, source="test"
    )
    return replace(known, name=name, predicted=predicted)


def case(known: Instance, *, best: Plan | None = None, **bounds: object) -> Case:
    """A case that is in no library."""
    made = None if best is None else best.info.makespan_ns
    digest = instance_digest(known)
    return Case(set="here", instance=known, sha256=digest, best_ns=made, best_plan=best, **bounds)  # type: ignore[arg-type]


def cases(count: int = 3) -> tuple[Case, ...]:
    """Cases of growing batches."""
    return tuple(case(instance(batch + 1, name=f"batch-{batch + 1}")) for batch in range(count))


def write_cases(folder: Path, count: int = 3) -> list[str]:
    """Write the instances of `cases` and return their files."""
    paths = [folder / f"batch-{batch + 1}.json.gz" for batch in range(count)]
    for path, one in zip(paths, cases(count), strict=True):
        write_instance(path, InstanceFile(instance=one.instance, provenance=Provenance(source="test")))
    return [str(path) for path in paths]


def plan_of(known: Instance, method: str = "presched") -> Plan:
    """A method's plan."""
    plan = solve(known, method=method).plan
    assert plan is not None
    return plan
