"""Models as files: read back by other solvers' own readers, with the same optimum."""

from pathlib import Path

import pytest
from cp_sat_judge import prove_optimum
from ortools.sat.python import cp_model
from tiny_instances import make_instance, seeded

from prescope.formulation.models.compact_model import Form
from prescope.formulation.models.layer_functions import Tables
from prescope.solver.exact.engine import EngineLimits
from prescope.solver.exact.engines import get_engine
from prescope.solver.exact.export import ModelKind, export_model, linear_model_of

highspy = pytest.importorskip("highspy")


def by_highs(path: Path) -> tuple[float, int, int]:
    from prescope.solver.exact.highs import silent_highs

    highs = silent_highs()
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    lp = highs.getLp()
    return highs.getInfo().objective_function_value, lp.num_col_, lp.num_row_


@pytest.mark.parametrize("kind", [ModelKind.TABLE, ModelKind.FLUID])
@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_highs_reads_the_same_optimum(tmp_path: Path, kind: ModelKind, suffix: str) -> None:
    for seed in range(25):
        instance = make_instance(seeded(seed), max_layers=4, max_experts=6)
        tables = list(Tables)[seed % 2]
        path = tmp_path / f"model{suffix}"
        written = export_model(path, instance, kind=kind, tables=tables)
        model = linear_model_of(instance, form=Form(kind.value), tables=tables)
        want = get_engine("highs").open(model).solve(EngineLimits()).objective
        got, columns, rows = by_highs(path)
        assert got == pytest.approx(want, abs=1e-6), seed
        assert (columns, rows) == (written.columns, written.rows)


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt"])
def test_cp_sat_reads_the_same_optimum(tmp_path: Path, suffix: str) -> None:
    for seed in range(12):
        instance = make_instance(seeded(seed), max_layers=3, max_experts=4, max_missing=5)
        path = tmp_path / f"model{suffix}"
        written = export_model(path, instance)
        assert written.kind is ModelKind.SCHEDULE
        model = cp_model.CpModel()
        if suffix == ".pbtxt":
            assert model.proto.parse_text_format(path.read_text())
        else:
            pb2 = pytest.importorskip("ortools.sat.cp_model_pb2")
            from google.protobuf import text_format

            parsed = pb2.CpModelProto()
            parsed.ParseFromString(path.read_bytes())
            assert model.proto.parse_text_format(text_format.MessageToString(parsed))
        assert len(model.proto.variables) == written.columns
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        assert solver.solve(model) == cp_model.OPTIMAL
        assert solver.objective_value == prove_optimum(instance).makespan_ns


def test_strange_names_do_not_break_files(tmp_path: Path) -> None:
    from dataclasses import replace

    instance = replace(make_instance(seeded(5)), name="a b\n\\end: 1 <= x\nbounds")
    for suffix in (".mps", ".lp"):
        export_model(tmp_path / f"m{suffix}", instance)
        by_highs(tmp_path / f"m{suffix}")


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    instance = make_instance(seeded(5))
    with pytest.raises(ValueError, match="file name ending in .mps"):
        export_model(tmp_path / "model.txt", instance)
    with pytest.raises(ValueError, match="unrestricted"):
        export_model(tmp_path / "model.mps", instance, kind=ModelKind.SCHEDULE)
    with pytest.raises(OSError):
        export_model(tmp_path / "nowhere" / "model.mps", instance)
    assert list(tmp_path.iterdir()) == []
