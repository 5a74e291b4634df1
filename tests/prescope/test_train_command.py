"""``prescope train``: a checkpoint that loads, goes on after an interruption, and answers in JSON."""

import fcntl
import json
import os

import msgspec
import pytest
from json_contract import Train

import prescope.predictor.llapor.train as training
from prescope.cli import main
from prescope.folder_lock import LOCK, folder_lock
from prescope.instances import write_trace
from prescope.predictor.llapor import load_llapor
from tests.support.hidden_traces import hidden_trace


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.npz"
    write_trace(path, hidden_trace(6, 12))
    return str(path)


def test_a_checkpoint_is_written_and_described(trace, tmp_path, capsys):
    folder = tmp_path / "out"
    command = ["train", trace, "-o", str(folder), "--epochs", "1", "--json", "--validation", "0.2"]
    assert main(command) == 0
    captured = capsys.readouterr()
    answer = msgspec.json.decode(captured.out, type=Train)
    assert "network 1 of 4, epoch 1" in captured.err
    assert (answer.sequences.train, answer.sequences.validation, answer.sequences.test) == (4, 1, 1)
    model = load_llapor(folder)
    assert model.parameters == answer.parameters and len(model.split.test) == 1
    assert [list(pair) for pair in model.cost_ns] == [list(pair) for pair in answer.prediction_ns]
    assert sorted(path.name for path in folder.iterdir()) == ["predictor.json", "weights.safetensors"]
    assert main(command) == 2
    assert "--overwrite" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert main([*command, "--overwrite"]) == 0


def test_an_interrupted_command_goes_on_and_other_data_is_refused(trace, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "out"
    command = ["train", trace, "-o", str(folder), "--epochs", "1", "--workers", "1"]
    whole = training.train_source
    done = []

    def broken(network, *args, **kwargs):
        if len(done) == 2:
            raise OSError("power cut")
        done.append(kwargs["source"])
        whole(network, *args, **kwargs)

    monkeypatch.setattr(training, "train_source", broken)
    assert main(command) == 2
    assert not (folder / "predictor.json").exists()
    monkeypatch.setattr(training, "train_source", whole)
    capsys.readouterr()
    assert main([*command, "--seed", "1"]) == 2
    assert "--restart" in capsys.readouterr().err
    assert main(command) == 0
    shown = capsys.readouterr().err
    assert "network 3 of 4" in shown and "network 1 of 4" not in shown
    assert main([*command, "--seed", "1", "--overwrite", "--restart"]) == 0


def test_two_trainings_do_not_share_a_folder(trace, tmp_path, capsys):
    folder = tmp_path / "out"
    folder.mkdir()
    command = ["train", trace, "-o", str(folder), "--kind", "ridge"]
    with folder_lock(folder, doing="training a predictor", leave=False):
        assert main(command) == 2
        shown = " ".join(capsys.readouterr().err.split())
        assert f"got process {os.getpid()} training a predictor there" in shown and "-o" in shown
    assert not folder.exists()
    assert main(command) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["predictor.json", "weights.safetensors"]


def test_a_lock_that_was_removed_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    whole, calls = fcntl.flock, []

    def late(descriptor, how):
        if not calls:
            # Its holder leaves between the two calls.
            (tmp_path / LOCK).unlink()
        calls.append(how)
        whole(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with folder_lock(tmp_path):
        assert (tmp_path / LOCK).read_text() == str(os.getpid())
        with pytest.raises(ValueError, match="to be free"), folder_lock(tmp_path):
            pass
    assert (tmp_path / LOCK).exists() and len(calls) == 3


def test_a_refused_training_leaves_no_folder(tmp_path):
    assert main(["train", str(tmp_path / "none.npz"), "-o", str(tmp_path / "x")]) == 2
    assert not (tmp_path / "x").exists()


def test_wrong_requests_are_refused(trace, tmp_path, capsys):
    for arguments, message in (
        ([trace, "--kind", "magic"], "expected --kind among llapor"),
        ([trace, "--test", "0.9"], "expected shares"),
        ([str(tmp_path / "none.npz")], "expected a regular file"),
    ):
        assert main(["train", *arguments, "-o", str(tmp_path / "x")]) == 2
        assert message in capsys.readouterr().err
    bare = tmp_path / "bare.npz"
    import dataclasses

    write_trace(bare, dataclasses.replace(hidden_trace(6, 12), hidden=None))
    assert main(["train", str(bare), "-o", str(tmp_path / "y")]) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "bare.npz: expected a trace with gating inputs" in shown and "routing-only" in shown
    assert main(["train", str(bare), "-o", str(tmp_path / "z"), "--kind", "routing-only"]) == 0
