"""What an engine hands over of its steps."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_models import prompts, random_model

from prescope.formulation import evaluate
from prescope.instances import read_recording, write_recording
from prescope.runtime.plugin import attach
from prescope.runtime.plugin.step_recording import recording_of


def test_the_newest_steps_are_kept_with_their_numbers(tmp_path: Path) -> None:
    model = random_model()
    with attach(model, 60_000, policy="dp", predictor="stale-gate", backend="sim") as engine:
        with pytest.raises(ValueError, match="has run none yet"):
            engine.recording()
        with pytest.raises(ValueError, match="steps kept"):
            engine.keep_steps(0)
        with torch.no_grad():
            model.generate(**prompts(2, 4), max_new_tokens=3, do_sample=False, eos_token_id=None)
        assert [step.index for step in engine.recording().steps] == [0, 1, 2]
        engine.keep_steps(2)
        recording = engine.recording()
        assert [(step.index, step.phase) for step in recording.steps] == [(1, "decode"), (2, "decode")]
        engine.write_recording(tmp_path / "run.json.gz")
    again = read_recording(tmp_path / "run.json.gz")
    assert again.facts == recording.facts
    assert recording.facts["policy"] == "dp" and "simulated" in recording.facts["times"]
    assert str(Path.cwd()) not in str(recording.facts)
    for step, read in zip(recording.steps, again.steps, strict=True):
        assert (read.instance, read.plan, read.tokens) == (step.instance, step.plan, 2)
        assert dict(read.schedules) == dict(step.schedules) and list(step.schedules) == [
            "planned",
            "simulated",
        ]
        assert step.schedules["planned"] == evaluate(step.instance, step.plan)
        assert step.began_unix_ns is None and step.instance.predicted is None
        # Said at the gates before: of every layer but the first.
        assert len(step.forecasts) == step.instance.layers
        assert all(forecast is not None for forecast in step.forecasts[1:])


def test_a_run_with_many_warnings_can_be_recorded(tmp_path: Path) -> None:
    model = random_model()
    with attach(model, 60_000, policy="dp", backend="sim") as engine:
        with torch.no_grad():
            model.generate(**prompts(2, 4), max_new_tokens=2, do_sample=False, eos_token_id=None)
        recording = recording_of(
            engine.records,
            engine.report().steps,
            replace(engine.report(), warnings=tuple(f"drift {number} of the link" for number in range(900))),
            model,
        )
    told = recording.facts["degraded"]
    assert told.startswith("drift 0 of the link; drift 1") and told.endswith("(900 warnings in all)")
    write_recording(tmp_path / "run.json.gz", recording)
