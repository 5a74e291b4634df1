"""The shapes that docs/json.md promises; unknown and missing fields are errors."""

from typing import Literal

from json_contract_bench import BenchCheck, BenchReport, BenchRun
from json_contract_compare import Compare, CompareBench
from json_contract_doctor import Doctor
from json_contract_evaluate import Evaluate
from json_contract_explain import ExplainExpert, ExplainLayer, ExplainPlan
from json_contract_generation import Generate, Run
from json_contract_horizon import HorizonShow, SolveHorizon
from json_contract_inspect import Inspect
from json_contract_whatif import WhatIfAnswer
from json_strict import Strict


class ErrorText(Strict):
    type: str
    message: str


class Failure(Strict):
    error: ErrorText


class Layer(Strict):
    gpu: list[int]
    cpu: list[int]


class Info(Strict):
    method: str
    parameters: list[tuple[str, str]]
    seed: int | None
    makespan_ns: int | None
    lower_bound_ns: int | None
    time_ns: int | None


class PlanShape(Strict):
    layers: list[Layer]
    transfers: list[tuple[int, int, int | None, int | None]]
    info: Info


class Solve(Strict):
    instance: str
    method: str
    seed: int
    status: Literal["optimal", "feasible", "no plan within the limits"]
    makespan_ns: int | None
    lower_bound_ns: int
    gap: float | None
    time_ns: int
    plan: PlanShape | None
    plan_path: str | None


class Placement(Strict):
    engine: Literal["ktransformers", "llama.cpp"]
    source: str
    path: str
    layers: int
    experts: int
    experts_on_device: int
    covered: float
    arguments: list[str] | None
    lost: list[str]


class Export(Strict):
    instance: str
    path: str
    model: Literal["schedule", "table", "fluid"]
    columns: int
    rows: int
    size_bytes: int


class LibraryLine(Strict):
    name: str
    set: str
    path: str
    layers: int
    experts: int
    tokens: int
    slots: int
    optimum_ns: int | None
    optimum_by: str | None
    lower_bound_ns: int | None
    lower_bound_by: str | None
    best_ns: int | None
    best_by: str | None
    sha256: str
    plan_sha256: str | None
    steps: int | None
    plan_path: str


class SetLine(Strict):
    name: str
    about: str
    instances: int
    proved: int
    layers: tuple[int, int]
    experts: tuple[int, int]
    tokens: tuple[int, int]
    mean_gap: float
    max_gap: float
    readme: str | None


class BoundsShape(Strict):
    optimum_ns: int | None
    optimum_by: str | None
    lower_bound_ns: int | None
    lower_bound_by: str | None


class ProvenanceShape(Strict):
    source: str
    generator: str
    seed: int | None
    created_by: str
    notes: str


class InstanceShow(Strict):
    name: str
    layers: int
    experts: int
    tokens: int
    activated: int
    residents: int
    slots: int
    lookahead: int
    tier: Literal["ram", "disk"]
    host_computes: bool
    expert_bytes: list[int]
    link_bytes_per_s: int
    costs_source: str
    predicted_by: str | None
    bounds: BoundsShape
    provenance: ProvenanceShape
    sha256: str


class Written(Strict):
    name: str
    path: str
    sha256: str


class Problem(Strict):
    name: str
    problem: str


class Proved(Strict):
    by: str
    instances: int


class Verified(Strict):
    checked: int
    proved: list[Proved]
    problems: list[Problem]


class Routing(Strict):
    model: str
    path: str
    tokens: int
    sequences: int
    layers: int
    experts: int
    top_k: int


class Record(Routing):
    token_bytes: int
    hidden_bytes: int
    sha256: str


class SequenceCounts(Strict):
    train: int
    validation: int
    test: int


class Train(Strict):
    path: str
    kind: Literal["llapor", "routing-only", "ridge"]
    model: str
    tokens: int
    sequences: SequenceCounts
    parameters: int
    groups: list[Literal["near-input", "middle", "near-output"]]
    prediction_ns: list[tuple[int, int]]
    time_ns: int


class Imported(Routing):
    log: str
    sha256: str


class Exported(Routing):
    trace: str


DOCUMENTED = {
    "error": Failure,
    "solve": Solve,
    "solve HORIZON": SolveHorizon,
    "export": Export,
    "placement": Placement,
    "doctor": Doctor,
    "instances list": LibraryLine,
    "instances sets": SetLine,
    "instances show": InstanceShow,
    "instances show HORIZON": HorizonShow,
    "instances build": Written,
    "instances verify": Verified,
    "explain EXPERT": ExplainExpert,
    "explain LAYER": ExplainLayer,
    "explain PLAN": ExplainPlan,
    "whatif": WhatIfAnswer,
    "inspect": Inspect,
    "compare": Compare,
    "compare BENCH": CompareBench,
    "run": Run,
    "record": Record,
    "train": Train,
    "import": Imported,
    "export-log": Exported,
    "generate": Generate,
    "evaluate": Evaluate,
    "bench": BenchRun,
    "bench report": BenchReport,
    "bench check": BenchCheck,
}
"""Headings of docs/json.md and the shape of one object (or one element of the list) under each."""
