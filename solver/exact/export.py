"""An instance's models as files for other solvers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prescope.formulation.instance import Instance
from prescope.formulation.models.compact_model import Form, compact_model
from prescope.formulation.models.copy_counts import schedule_counts
from prescope.formulation.models.cp_sat_model import build_cp_sat_model
from prescope.formulation.models.layer_functions import Tables, layer_functions
from prescope.formulation.models.linear_model import LinearModel
from prescope.formulation.models.write_lp import lp_text
from prescope.formulation.models.write_mps import mps_text
from prescope.formulation.workload import workload
from prescope.instances._atomic import atomic_file
from prescope.solver.api import solve
from prescope.solver.bound import lower_bound
from prescope.solver.errors import SolverError
from prescope.solver.exact.cp_sat_linear import cp_sat_of_linear


class ModelKind(StrEnum):
    """Which model of an instance.

    ``SCHEDULE`` is the unrestricted one (CP-SAT only), ``TABLE`` and ``FLUID`` are the compact ones
    (`prescope.formulation.models.compact_model`).
    """

    SCHEDULE = "schedule"
    TABLE = "table"
    FLUID = "fluid"


SUFFIXES = (".mps", ".lp", ".pb", ".pbtxt")
"""What `export_model` writes, by file name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written.

    Parameters
    ----------
    path, kind
        Where, and which model.
    columns, rows
        Variables and constraints.
    """

    path: Path
    kind: ModelKind
    columns: int
    rows: int


def linear_model_of(instance: Instance, *, form: Form, tables: Tables = Tables.BOUND) -> LinearModel:
    """A compact model of an instance; `Tables.BOUND` makes its optimum a lower bound of the makespan."""
    work = workload(instance)
    functions = layer_functions(work, tables)
    lookahead, ready = int(work.lookahead), int(work.link_ready_ns)
    most = [one.most for one in functions]
    horizon = schedule_counts(functions, most, lookahead=lookahead, link_ready_ns=ready)[0][-1]
    return compact_model(
        functions,
        form=form,
        lookahead=lookahead,
        link_ready_ns=ready,
        horizon_ns=horizon,
        name=instance.name,
    ).linear


def export_model(
    path: Path, instance: Instance, *, kind: ModelKind | None = None, tables: Tables = Tables.BOUND
) -> Exported:
    """Write a model; the format follows the file's name.

    Parameters
    ----------
    path
        ``.mps`` (free format), ``.lp`` (CPLEX), ``.pb`` or ``.pbtxt`` (CP-SAT's protocol buffer, binary and
        text). Written whole or not at all. All numbers are whole, times in nanoseconds.
    instance
        The problem.
    kind
        Which model; ``None`` is the table model for ``.mps`` and ``.lp`` and the unrestricted one, with the
        dp plan as hint and horizon, for ``.pb`` and ``.pbtxt``.
    tables
        Of the compact models.

    Raises
    ------
    ValueError
        When the suffix is unknown, or the format cannot hold the model.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"expected a file name ending in {', '.join(SUFFIXES)}, got {path.name!r}")
    linear_only = suffix in (".mps", ".lp")
    chosen = kind or (ModelKind.TABLE if linear_only else ModelKind.SCHEDULE)
    if linear_only and chosen is ModelKind.SCHEDULE:
        raise ValueError(f"expected .pb or .pbtxt for the unrestricted model, got {path.name!r}")
    if chosen is ModelKind.SCHEDULE:
        stated = _schedule_model(instance)
        columns, rows = len(stated.proto.variables), len(stated.proto.constraints)
    else:
        linear = linear_model_of(instance, form=Form(chosen.value), tables=tables)
        columns, rows = len(linear.columns), len(linear.rows)
        stated = None if linear_only else cp_sat_of_linear(linear)
    if stated is None:
        content = (mps_text(linear) if suffix == ".mps" else lp_text(linear)).encode()
    else:
        content = _proto_bytes(stated, suffix)
    with atomic_file(path) as stream:
        stream.write(content)
    return Exported(path=path, kind=chosen, columns=columns, rows=rows)


def _schedule_model(instance: Instance) -> Any:
    result = solve(instance)
    assert result.plan is not None and result.makespan_ns is not None
    model = build_cp_sat_model(
        instance,
        horizon_ns=result.makespan_ns,
        lower_bound_ns=lower_bound(instance, upper_ns=result.makespan_ns),
    )
    model.add_hint(result.plan)
    return model.model


def _proto_bytes(stated: Any, suffix: str) -> bytes:
    # OR-Tools writes to a named file only, text where the name ends in "txt".
    with TemporaryDirectory() as folder:
        temporary = Path(folder) / f"model{suffix}"
        if not stated.export_to_file(str(temporary)):
            raise SolverError(f"expected CP-SAT to write a model as {suffix}, got a refusal")
        return temporary.read_bytes()
