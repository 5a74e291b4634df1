"""Horizon files: what is written is read, and what does not fit is refused with the field."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_horizons import plan_step, tiny_horizon, with_knowledge

from prescope.formulation.horizon import HorizonPlan
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.instances import (
    Bounds,
    HorizonFile,
    InstanceFileError,
    Provenance,
    file_format,
    horizon_digest,
    read_horizon,
    read_horizon_plan,
    read_instance,
    write_horizon,
    write_horizon_plan,
)
from prescope.solver.residency import Belady, run_horizon

ORIGIN = Provenance(source="a test", generator="this file")


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    steps=st.integers(1, 4),
    ending=st.sampled_from([".json", ".json.gz"]),
    knows=st.booleans(),
)
def test_a_horizon_comes_back_as_it_was(seed, steps, ending, knows, tmp_path_factory):
    path = tmp_path_factory.mktemp("horizon") / f"h{ending}"
    horizon = tiny_horizon(seed, steps)
    file = HorizonFile(
        horizon=with_knowledge(horizon) if knows else horizon,
        provenance=ORIGIN,
        bounds=Bounds(lower_bound_ns=seed, lower_bound_by="a test"),
    )
    checksum = write_horizon(path, file)
    back = read_horizon(path)
    assert back == file
    assert back.sha256 == checksum == file.sha256
    assert file_format(path) == "prescope-horizon"
    assert horizon_digest(back.horizon) == horizon_digest(file.horizon)
    # What a rule may learn from is a part of the problem; what is proved of it is not.
    assert (horizon_digest(horizon) == horizon_digest(back.horizon)) is not knows
    assert horizon_digest(replace(back, bounds=Bounds()).horizon) == horizon_digest(file.horizon)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 4), ending=st.sampled_from([".json", ".json.gz"]))
def test_a_plan_comes_back_as_it_was(seed, steps, ending, tmp_path_factory):
    path = tmp_path_factory.mktemp("horizon") / f"p{ending}"
    horizon = tiny_horizon(seed, steps)
    plan = run_horizon(horizon, Belady([demand.counts for demand in horizon.demands]), plan_step)
    checksum = write_horizon_plan(path, plan, horizon)
    back = read_horizon_plan(path)
    assert (back.plan, back.sha256, back.horizon_name) == (plan, checksum, horizon.name)
    assert file_format(path) == "prescope-horizon-plan"
    back.require_horizon(horizon)
    assert evaluate_horizon(horizon, back.plan) == evaluate_horizon(horizon, plan)
    with pytest.raises(ValueError, match="expected horizon 'tiny' with checksum"):
        back.require_horizon(replace(horizon, lookahead=horizon.lookahead + 1))


def changed_plan(tmp_path, change):
    path = tmp_path / "p.json"
    horizon = tiny_horizon(5, 3)
    plan = HorizonPlan(
        plans=tuple(plan_step(horizon.instance(step, horizon.residents)) for step in range(3)),
        residents=(horizon.residents,) * 3,
    )
    write_horizon_plan(path, plan, horizon)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["plan"]["plans"].pop(), "as many plans as residents"),
        (lambda d: d["plan"]["residents"][1][0].extend([3, 3]), "ascending"),
        (lambda d: d["plan"].update(method="someone"), "altered"),
        (lambda d: d["plan"]["plans"][1]["layers"].clear(), "plans"),
        (lambda d: d.update(horizon_sha256="abc"), "horizon_sha256"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(tmp_path, change, message):
    with pytest.raises(InstanceFileError, match=message):
        read_horizon_plan(changed_plan(tmp_path, change))


def test_kinds_of_files_are_told_apart(tmp_path):
    plan, horizon = changed_plan(tmp_path, lambda _: None), changed(tmp_path, lambda _: None)
    with pytest.raises(InstanceFileError, match="read_horizon_plan"):
        read_horizon(plan)
    with pytest.raises(InstanceFileError, match="read_horizon"):
        read_horizon_plan(horizon)
    horizon.write_text('{"format": "something"}')
    with pytest.raises(InstanceFileError, match="expected one of prescope-instance"):
        file_format(horizon)
    horizon.write_text("{")
    with pytest.raises(InstanceFileError, match="JSON"):
        file_format(horizon)


def changed(tmp_path, change):
    path = tmp_path / "h.json"
    write_horizon(path, HorizonFile(horizon=with_knowledge(tiny_horizon(5, 3)), provenance=ORIGIN))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["later"].pop(), "predictions of 2 steps or none, got 3"),
        (lambda d: d["predicted"].clear(), "altered"),
        (lambda d: d["predicted"][1]["probabilities"][0].pop(), "expected probabilities for"),
        (lambda d: d["predicted"][1]["probabilities"][0][0].__setitem__(0, 1.5), "1.0"),
        (lambda d: d["history"][0][0]["counts"].pop(), "layers of"),
        (lambda d: d["history"][0][1]["counts"][0].__setitem__(0, 10**6), "batch_tokens"),
        (lambda d: d["bounds"].update(lower_bound_ns=3), "both or none"),
        (lambda d: d["later"][1]["counts"].pop(), "layers"),
        (lambda d: d["later"][0]["counts"][0].append(0), "experts"),
        (lambda d: d["instance"].update(link_ready_ns=3), "idle link"),
        (lambda d: d.update(later=None), "later"),
        (lambda d: d.update(more=1), "more"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, change, message):
    with pytest.raises(InstanceFileError, match=message):
        read_horizon(changed(tmp_path, change))


def test_an_instance_reader_says_which_reader_to_take(tmp_path):
    with pytest.raises(InstanceFileError, match="read_horizon"):
        read_instance(changed(tmp_path, lambda document: None))


def test_a_truncated_file_is_refused(tmp_path):
    path = changed(tmp_path, lambda document: None)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InstanceFileError):
        read_horizon(path)
