"""``prescope run --retention``: rules side by side, on text of the shipped model."""

import pytest

import prescope.models
from prescope.cli import main


def test_rules_of_retention_are_compared_on_the_same_text(answer, tmp_path):
    from json_contract import Run

    run = answer(
        Run, "run", "tiny", "--backend", "sim", "--batch", "1", "--tokens", "10",
        "--policies", "on-demand", "--retention", "static, lru", "--traces", tmp_path,
    )  # fmt: skip
    still, lru = run.rows
    assert [row.retention for row in run.rows] == ["static", "lru"]
    assert still.tokens_equal
    assert lru.tokens_equal
    assert still.exchanges == 0
    assert lru.exchanges > 0
    assert lru.simulated_ns < still.simulated_ns
    assert lru.hit_rate > still.hit_rate
    assert (tmp_path / "on-demand-lru-step003.json").exists()
    assert (tmp_path / "on-demand-step003.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--retention magic", "expected a retention among static"),
        ("--retention lru:trace.npz", "or learned:TRACE"),
        ("--retention learned:", "or learned:TRACE"),
        ("--retention lru:", "or learned:TRACE"),
        ("--retention learned:nowhere.npz", "expected a file of recorded routing"),
        ("--retention lru,lru", "expected distinct"),
        ("--policies magic", "expected a policy among on-demand"),
        ("--policies cp-sat", "expected a policy among on-demand"),
        ("--policies magic --clairvoyant", "expected a method among on-demand"),
        ("--predictor magic", "expected a predictor among moving-average"),
        ("--predictor ridge", "expected a predictor among moving-average"),
        ("--predictor llapor:/nowhere+tune", "expected the folder of a trained predictor"),
        ("--predictor oracle", "clairvoyant runs have it"),
        ("--preset magic@x", "expected a model among"),
    ],
)
def test_names_that_nobody_knows_are_refused_before_anything_is_loaded(
    arguments, message, capsys, monkeypatch
):
    monkeypatch.setattr(prescope.models, "open_model", lambda name: pytest.fail("a model was loaded"))
    assert main(["run", "tiny", "--backend", "sim", "--tokens", "1", *arguments.split()]) == 2
    assert message in capsys.readouterr().err
