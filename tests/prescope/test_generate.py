"""``prescope generate``: streamed text, figures, refusals, interruption."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from json_contract import Generate

from prescope.cli import main
from prescope.inspection import open_view, spent, waterfall
from prescope.tiny import load_tiny, tiny_model_path

PROMPT = "def main(arguments):\n"


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def arguments(*more: object, memory: str = "3MiB", tokens: int = 8, path: object = None) -> list[str]:
    start = ["generate", path or tiny_model_path(), "--prompt", PROMPT, "--expert-memory", memory]
    return [str(part) for part in [*start, "--max-new-tokens", tokens, "--dtype", "float32", *more]]


@functools.cache
def expected_text(tokens: int) -> str:
    model, tokenizer = load_tiny()
    inputs = tokenizer(PROMPT, return_tensors="pt")
    output = model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
    return str(tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def test_the_text_is_the_fully_loaded_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments("--stats")) == 0
    streams = capsys.readouterr()
    assert streams.out == expected_text(8) + "\n"
    assert "8 tokens after" in streams.err and "tokens/s" in streams.err and "hit rate" in streams.err


def test_without_stats_there_is_only_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(tokens=2)) == 0
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == (expected_text(2) + "\n", "")


def test_json_is_one_object_of_the_promised_shape(answer) -> None:
    found = answer(Generate, *arguments())
    assert found.text == expected_text(8)
    assert found.new_tokens == 8
    assert found.expert_memory_bytes == 3 * 2**20 >= found.arena_bytes
    # 8 layers of 32 experts of 3 matrices of 64 x 128 in float32.
    assert found.experts_bytes == 8 * 32 * 3 * 64 * 128 * 4
    assert found.bytes_read > 0 and found.bytes_per_token > 0
    assert 0 <= found.hit_rate <= 1
    assert found.token_p50_ns <= found.token_p99_ns


def test_a_recording_has_every_step_as_it_was_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.json.gz"
    assert main(arguments("--recording", path, tokens=3)) == 0
    assert capsys.readouterr().out == expected_text(3) + "\n"
    view = open_view(path)
    assert [step.phase for step in view.steps] == ["prefill", "decode", "decode"]
    assert view.title.startswith("tiny-qwen3-moe") and str(tmp_path) not in str(view.provenance)
    for step in view.steps:
        assert list(step.schedules) == ["planned", "measured"] and step.began_unix_ns is not None
        found = waterfall(step)
        assert found is not None and sum(part.ns for part in found.parts) == step.schedule.makespan_ns
        assert sum(part.ns for part in spent(step.schedule)) == step.schedule.makespan_ns
    began = [step.began_unix_ns or 0 for step in view.steps]
    assert began == sorted(began)


def test_one_token_has_no_rate(answer, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(Generate, *arguments(tokens=1))
    assert (found.tokens_per_s, found.bytes_per_token, found.hit_rate) == (None, None, None)
    assert main(arguments("--stats", tokens=1)) == 0
    assert "then - tokens/s" in capsys.readouterr().err


def test_sampling_is_reproducible(answer) -> None:
    texts = [answer(Generate, *arguments("--temperature", 1.5, "--seed", seed)).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_the_prompt_may_come_from_stdin(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO(PROMPT))
    given = arguments()
    given[given.index(PROMPT)] = "-"
    assert main(given) == 0
    assert capsys.readouterr().out == expected_text(8) + "\n"


def copy_of_tiny(folder: Path) -> Path:
    return Path(shutil.copytree(tiny_model_path(), folder))


def test_wrong_input_is_one_clear_line(refusal, tmp_path: Path) -> None:
    assert "no such folder" in refusal(*arguments(path=tmp_path / "nowhere"))
    assert "without config.json" in refusal(*arguments(path=tmp_path))
    folder = copy_of_tiny(tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))
    assert "qwen3_moe, mixtral, olmoe, got 'gpt2'" in refusal(*arguments(path=folder))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").unlink()
    assert "expected a tokenizer" in refusal(*arguments(path=folder))
    assert "expected dtype" in refusal(*arguments("--dtype", "int4"))
    assert "policy" in refusal(*arguments("--policy", "magic"))
    assert "lots" in refusal(*arguments(memory="lots"))
    assert "ending in .json" in refusal(*arguments("--recording", tmp_path / "run.txt"))
    assert "folder" in refusal(*arguments("--recording", tmp_path / "nowhere" / "run.json"))
    empty = arguments()
    empty[empty.index(PROMPT)] = ""
    assert "at least one token" in refusal(*empty)


def test_a_truncated_checkpoint_is_named(refusal, tmp_path: Path) -> None:
    folder = copy_of_tiny(tmp_path / "copy")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    assert str(weights) in refusal(*arguments(path=folder))


def test_too_small_a_memory_is_refused_with_the_minimum(refusal, answer) -> None:
    said = refusal(*arguments(memory="1000"))
    assert "expected expert_memory of at least" in said and "got 1000 B" in said
    least = said.split("(")[1].split(" bytes")[0]
    assert answer(Generate, *arguments(memory=least, tokens=2)).text == expected_text(2)


def test_interruption_ends_cleanly(tmp_path: Path) -> None:
    # Started with SIGINT at its default, whatever the shell of the tests ignores.
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script = f"{start}from prescope.cli import main\nsys.exit(main({arguments(tokens=1000)!r}))"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    seen = b""
    while len(seen) < 8:
        seen += os.read(process.stdout.fileno(), 1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b"prescope: interrupted; nothing was left half-written\n"
    assert (seen + out).endswith(b"\n")


def test_a_reader_that_has_enough_is_no_error() -> None:
    command = [sys.executable, "-m", "prescope", *arguments(tokens=40)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    os.read(process.stdout.fileno(), 1)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0
