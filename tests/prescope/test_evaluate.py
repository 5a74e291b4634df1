"""``prescope evaluate``: answers, files, refusals; and that a predictor is judged on what it never saw."""

import json
from dataclasses import replace

import numpy as np
import pytest
from json_contract import Evaluate
from linked_traces import linked_trace

from prescope.cli import main
from prescope.evaluation import EvaluateSettings, evaluate_predictor
from prescope.evaluation.cells import cells, summaries
from prescope.evaluation.contestants import trained_split
from prescope.evaluation.planning import Planner
from prescope.evaluation.sequences import judged_sequences, reference_popularity
from prescope.instances import popularity, write_trace
from prescope.predictor.routing_only import save_routing_only, train_routing_only
from prescope.predictor.routing_only.settings import RoutingOnlySettings
from prescope.predictor.split import SequenceSplit, split_sequences
from prescope.report.prediction import BATCH_COLUMNS, PLAN_COLUMNS

QUICK = (
    "--horizons",
    "2",
    "--batches",
    "2",
    "--steps",
    "6",
    "--plan-steps",
    "2",
    "--baselines",
    "popularity",
)


@pytest.fixture(scope="module")
def trace():
    return linked_trace(sequences=10, tokens=16, prompt=2, token_ids=True)


@pytest.fixture
def trace_path(trace, tmp_path):
    write_trace(tmp_path / "trace.npz", trace)
    return tmp_path / "trace.npz"


@pytest.fixture(scope="module")
def folder(trace, tmp_path_factory):
    place = tmp_path_factory.mktemp("routing-only")
    settings = RoutingOnlySettings(horizons=3, window=2, decays=(0.5,))
    save_routing_only(place, train_routing_only(trace, split_sequences(trace), settings))
    return place


def test_answers_as_promised(answer, trace_path, folder, tmp_path):
    found = answer(Evaluate, "evaluate", folder, trace_path, *QUICK, "-o", tmp_path / "out")
    assert (found.predictor, found.warning) == (f"routing-only:{folder}", None)
    assert (found.judged_sequences, found.learned_sequences) == (2, 6)
    assert [(one.name, one.missing) for one in found.predictors] == [
        ("routing-only", None),
        ("popularity", None),
    ]
    first, second = (one.batches[0] for one in found.predictors)
    assert [one.horizon for one in first.horizons] == [1, 2]
    assert len(first.cells) == 7
    assert first.horizons[0].recall > second.horizons[0].recall + 0.2
    names = {(row.policy, row.predictor) for row in found.plans}
    assert {predictor for _, predictor in names} == {"routing-only", "popularity", "oracle"}
    for row in found.plans:
        assert row.steps == 2
        assert row.gain == pytest.approx(1 - row.realised_ns / row.no_prefetch_ns)
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["evaluation.json", "evaluation.md", "recall.png", "reliability.png"]
    kept = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert kept["predictors"][0]["batches"][0]["cells"][0]["layer"] == 0
    assert kept["output"] == found.output == str(tmp_path / "out")


def test_for_people(capsys, trace_path, folder):
    assert main(["evaluate", str(folder), str(trace_path), *QUICK]) == 0
    text, progress = capsys.readouterr()
    assert "Judged on 2 sequences that nothing was trained on" in " ".join(text.split())
    for title in ("1 ahead, tokens", "2 ahead, batch 2", "planning with dp, batch 2", "(demand known)"):
        assert title in text
    # Nothing is cut short where there is no terminal.
    assert "…" not in text
    assert "routing-only, batch 2" in progress


def test_tables_are_whole_in_narrow_terminals(capsys, monkeypatch, trace_path, folder):
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["evaluate", str(folder), str(trace_path), *QUICK]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert " ".join(PLAN_COLUMNS) in shown and " ".join(BATCH_COLUMNS) in shown
    planned = [line for line in shown if line.startswith("routing-only ") and "ms" in line]
    assert planned and all(line.endswith("GiB") and line.count("%") == 2 for line in planned)


def test_the_same_answer_every_time(trace, folder):
    settings = EvaluateSettings(
        horizons=2, batches=(2,), max_steps=4, plan_steps=1, baselines=("token-table", "ridge")
    )
    first, second = (evaluate_predictor(str(folder), trace, settings) for _ in range(2))
    for one, other in zip(first.predictors, second.predictors, strict=True):
        assert cells(one.batches[0]) == cells(other.batches[0])
        assert summaries(one.batches[0]) == summaries(other.batches[0])
    assert first.plans == second.plans
    assert [one.name for one in first.predictors] == ["routing-only", "token-table", "ridge"]


def test_the_time_of_a_prediction_is_charged_when_asked_for(trace, folder, monkeypatch):
    charged = []
    rows = Planner.rows

    def watched(self, predictor, kept, *, prediction_ns=0):
        charged.append((predictor, prediction_ns))
        # As long as the step itself: the host comes to its experts, and to its forecasts, much later.
        return rows(self, predictor, kept, prediction_ns=1_000_000 * bool(prediction_ns))

    monkeypatch.setattr(Planner, "rows", watched)
    settings = EvaluateSettings(horizons=2, batches=(2,), max_steps=4, plan_steps=2, baselines=())
    free, paid = (
        evaluate_predictor(str(folder), trace, replace(settings, charge=charge)) for charge in (False, True)
    )
    gate_ns = paid.predictors[0].batches[0].gate_ns
    assert charged == [("routing-only", 0), ("oracle", 0), ("routing-only", gate_ns), ("oracle", 0)]
    assert gate_ns > 0
    for one, other in zip(free.plans, paid.plans, strict=True):
        slower = other.realised_ns > one.realised_ns
        assert slower == (one.predictor != "oracle")


def test_what_the_trace_does_not_allow_is_said(trace):
    settings = EvaluateSettings(horizons=1, batches=(1,), max_steps=2, plan_steps=0)
    found = evaluate_predictor("moving-average", linked_trace(sequences=1, tokens=9, prompt=3), settings)
    missing = {one.name: one.missing for one in found.predictors if one.missing}
    assert missing == {
        "token-table": "the trace has no token ids",
        "stale-gate": "the trace has no gating inputs; `prescope record --hidden` keeps them",
        "ridge": "the trace has no sequences to learn from beside the 1 judged",
    }
    assert found.plans == ()
    with pytest.raises(ValueError, match="'stale-gate' can work on: the trace has no gating inputs"):
        evaluate_predictor("stale-gate", trace, settings)


def test_training_sequences_are_never_judged(trace, folder):
    own = split_sequences(trace)
    assert trained_split(str(folder)) == (f"routing-only:{folder}", own)
    assert judged_sequences(trace, own, seed=5).split == own
    other = judged_sequences(linked_trace(sequences=4, tokens=9), own, seed=5)
    assert "was trained on a trace of 10 sequences and this one has 4" in (other.warning or "")
    everything = SequenceSplit(train=tuple(range(8)), validation=(8, 9), test=())
    with pytest.raises(ValueError, match="trained on all of this trace"):
        judged_sequences(trace, everything, seed=0)


def test_popularity_to_beat_comes_from_other_sequences(trace):
    split = split_sequences(trace)
    rows = np.concatenate([np.arange(at * 18, at * 18 + 18) for at in split.train])
    assert reference_popularity(trace, split) == pytest.approx(popularity(trace, rows=rows))
    alone = SequenceSplit(train=(), validation=(), test=(0,))
    assert reference_popularity(trace, alone) == pytest.approx(popularity(trace, rows=[0, 1]))
    bare = linked_trace(sequences=1, tokens=4)
    assert reference_popularity(bare, alone) == pytest.approx(np.full((4, 6), 1 / 3))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nobody", "TRACE"), "expected a predictor among"),
        (("no/where", "TRACE"), "expected a checkpoint folder"),
        (("EMPTY", "TRACE"), "expected the description of a checkpoint"),
        (("popularity", "nothing.npz"), "nothing.npz"),
        (("popularity", "TRACE", "--batches", "2,x"), "expected --batches as numbers"),
        (("popularity", "TRACE", "--batches", "0"), "expected --batches as numbers"),
        (("popularity", "TRACE", "--batches", "999"), "expected at least 999 decoded tokens"),
        (("popularity", "TRACE", "--baselines", "luck"), "expected baselines among"),
        (("popularity", "TRACE", "--preset", "x@y"), "expected"),
        (("oracle", "TRACE"), "expected a recorded pass for the predictor 'oracle'"),
    ],
)
def test_refusals(refusal, trace_path, tmp_path, arguments, said):
    places = {"TRACE": str(trace_path), "EMPTY": str(tmp_path / "empty")}
    (tmp_path / "empty").mkdir()
    assert said in refusal("evaluate", *(places.get(word, word) for word in arguments))


def test_another_model_is_refused(refusal, folder, tmp_path):
    write_trace(tmp_path / "other.npz", linked_trace(sequences=4, tokens=8, experts=7))
    assert "experts: 6, here 7" in refusal("evaluate", folder, tmp_path / "other.npz", *QUICK)
