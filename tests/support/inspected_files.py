"""A file of every kind that opens, and which other file it needs."""

import json
from pathlib import Path

from bench_sweeps import rows, sweep
from example_traces import example_trace
from small_schedule import SMALL

from prescope.formulation import Instance, Plan, evaluate
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.inspection import View, ViewKind, open_view
from prescope.instances import (
    HorizonFile,
    InstanceFile,
    Provenance,
    RecordedStep,
    Recording,
    write_horizon,
    write_instance,
    write_plan,
    write_recording,
    write_trace,
)
from prescope.instances.horizon_plan_file import write_horizon_plan
from prescope.report import write_trace as write_schedules
from prescope.runtime.compile import compile_plan

Waste = tuple[Instance, Plan, Plan]
PROVENANCE = Provenance(source="test", created_by="test")


def write_evaluation(path: Path) -> None:
    measures = dict.fromkeys(
        ("recall", "wide_recall", "brier_skill", "calibration_error", "soft_count_error"), 0.5
    )
    measures |= dict.fromkeys(("hard_count_error", "four_in_six", "event_error"), 0.25)
    batch = {
        "batch": 4,
        "piece": None,
        "steps": 9,
        "gate_ns": 1000,
        "horizons": [
            {
                "horizon": 1,
                **measures,
                "worst_brier_skill": 0.1,
                "worst_event_error": 0.1,
                "reliability": [{"forecasts": 3, "said": 0.2, "happened": 0.3}],
            }
        ],
        "cells": [{"layer": 1, "horizon": 1, **measures}],
    }
    plan = {
        "batch": 4, "steps": 9, "policy": "dp", "predictor": "p", "realised_ns": 9, "no_prefetch_ns": 10,
        "clairvoyant_ns": 8, "useful": 1, "wasted": 2, "late": 3, "moved_bytes": 4, "wasted_bytes": 5,
        "gain": 0.1, "clairvoyant_share": 0.5,
    }  # fmt: skip
    path.write_text(
        json.dumps(
            {
                "trace": "t.npz", "output": None, "predictor": "p", "model": "m", "layers": 2, "experts": 3,
                "top_k": 1, "judged_sequences": 1, "learned_sequences": 1, "warning": None, "preset": None,
                "slots": 1, "resident_fraction": 0.5, "charged": True, "plans": [plan],
                "predictors": [{"name": "p", "missing": None, "batches": [batch]}],
            }
        )
    )  # fmt: skip


def two_steps(instance: Instance) -> Horizon:
    return Horizon(
        name="two steps",
        costs=instance.costs,
        demands=(instance.demand, instance.demand),
        residents=instance.residents,
        slots=instance.slots,
        lookahead=instance.lookahead,
    )


def write_kinds(waste: Waste, tmp_path: Path) -> dict[ViewKind, Path]:
    """Write a file of every kind."""
    instance, clean, _ = waste
    horizon = two_steps(instance)
    plan = HorizonPlan(plans=(clean, clean), residents=(instance.residents,) * 2, method="hand")
    step = RecordedStep(
        index=3, instance=instance, plan=clean, schedules={"planned": evaluate(instance, clean)}, tokens=1
    )
    found = {kind: tmp_path / f"{kind.value}.json" for kind in ViewKind}
    found[ViewKind.ROUTING] = tmp_path / "routing.npz"
    found[ViewKind.BENCH] = sweep(tmp_path / "sweep", rows("dp", 10, None))
    write_instance(found[ViewKind.INSTANCE], InstanceFile(instance=instance, provenance=PROVENANCE))
    write_plan(found[ViewKind.PLAN], clean, instance)
    found[ViewKind.PROGRAM].write_bytes(compile_plan(instance, clean).to_json())
    write_schedules(found[ViewKind.TRACE], {"planned": SMALL}, {"policy": "dp"})
    write_recording(found[ViewKind.RECORDING], Recording(steps=(step,), facts={"model": "<m>"}))
    write_trace(found[ViewKind.ROUTING], example_trace(experts=8))
    write_horizon(found[ViewKind.HORIZON], HorizonFile(horizon=horizon, provenance=PROVENANCE))
    write_horizon_plan(found[ViewKind.HORIZON_PLAN], plan, horizon)
    write_evaluation(found[ViewKind.PREDICTION])
    return found


NEEDS = {ViewKind.PLAN: ViewKind.INSTANCE, ViewKind.HORIZON_PLAN: ViewKind.HORIZON}


def opened(kinds: dict[ViewKind, Path], kind: ViewKind) -> View:
    return open_view(kinds[kind], instance=kinds[NEEDS[kind]] if kind in NEEDS else None)
